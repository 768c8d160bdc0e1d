"""Prepare names for a picture: in any script for which a font is installed, in a few short lines."""

import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache

FONT = "DejaVu Sans"
"""The font that comes with matplotlib: Latin, Greek, Cyrillic, Arabic, Hebrew and more, but not Chinese, Japanese or
Korean."""

MISSING = "\N{WHITE SQUARE}"
"""Replaces a character that no installed font has, as in a browser."""

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


@cache
def _characters(path: str) -> frozenset[int]:
    """The code points that a font file has a glyph for."""
    from matplotlib.ft2font import FT2Font  # slow to import, and needed here only

    return frozenset(FT2Font(path).get_charmap())


def _other_fonts() -> Iterator[tuple[str, str]]:
    """Yield family and file of the installed fonts, without matplotlib's own, which only add mathematical symbols."""
    from matplotlib import get_data_path
    from matplotlib.font_manager import fontManager

    own = get_data_path()
    return ((entry.name, entry.fname) for entry in fontManager.ttflist if not entry.fname.startswith(own))


def fonts_for(text: str) -> list[str]:
    """Choose font families that together can draw a text: the usual one, and others only if it lacks a character."""
    from matplotlib.font_manager import findfont

    families = [FONT]
    wanted = {ord(character) for character in text} - _characters(findfont(FONT))
    for family, path in _other_fonts() if wanted else ():
        if found := wanted & _characters(path):
            families.append(family)
            wanted -= found
        if not wanted:
            break
    return families


def drawable(text: str) -> tuple[str, list[str]]:
    """Return the text on one line, with squares for characters that no font has, and the fonts to draw it with."""
    from matplotlib.font_manager import findfont

    text = " ".join("".join(" " if unicodedata.category(one) == "Cc" else one for one in text).split())
    families = fonts_for(text)
    known = frozenset[int]().union(*(_characters(findfont(family)) for family in families))
    return "".join(one if ord(one) in known else _stand_in(one) for one in text), families


def _stand_in(character: str) -> str:
    """Replace a missing character; joiners and direction marks, which are invisible, are dropped."""
    return "" if unicodedata.category(character) == "Cf" else MISSING


def columns(text: str) -> int:
    """Return the width of a text in columns: East Asian characters take two, combining characters none."""
    wide = (one == MISSING or unicodedata.east_asian_width(one) in "WF" for one in text)
    return sum(0 if unicodedata.combining(one) else 1 + is_wide for one, is_wide in zip(text, wide, strict=True))


def shorten(text: str, room: int) -> str:
    """Shorten the text to `room` columns, with an ellipsis if it does not fit."""
    if columns(text) <= room:
        return text
    while text and columns(text) > room - 1:
        text = text[:-1]
    return text.rstrip() + ELLIPSIS


def wrap(text: str, room: int, lines: int = 2) -> str:
    """Wrap the text to at most `lines` lines of `room` columns, preferably at spaces and underscores."""
    done: list[str] = []
    while text and len(done) < lines - 1 and columns(text) > room:
        cut = _break(text, room)
        done.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    return "\n".join([*done, shorten(text, room)])


def _break(text: str, room: int) -> int:
    """Return the number of characters of the first line."""
    fitting = [end for end in range(1, len(text) + 1) if columns(text[:end]) <= room]
    return max(_after_blanks(text, fitting), default=max(fitting, default=1))


def _after_blanks(text: str, ends: Iterable[int]) -> list[int]:
    return [end for end in ends if text[end - 1] in " _-/" or text[end : end + 1] == " "]
