"""Names that people give to projects and classes."""

import unicodedata

from implanting.errors import DataError

NONE = "none of these"
"""The answer for a photo that fits no class."""

LONGEST_NAME = 200


def named(name: str, what: str) -> str:
    """Return a name that can be shown and kept; raise an error for any other."""
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or not seemly(name):
        unseemly = "" if seemly(name) else ", some of them control characters"
        raise DataError(
            f"the name of a {what} has {len(name)} characters{unseemly}; "
            f"expected 1 to {LONGEST_NAME} letters, digits or signs: choose another"
        )
    return name


def seemly(text: str) -> bool:
    """Whether a text can be kept and shown: no control characters, line breaks or halves of letters."""
    return not any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in text)
