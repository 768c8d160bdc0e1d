import pytest

from implanting.heatmap.lettering import FONT, MISSING, columns, drawable, fonts_for, shorten, wrap


def test_the_usual_font_suffices_for_most_scripts():
    assert fonts_for("Löwe Λέων лев שלום") == [FONT]


def test_a_character_that_no_font_has_becomes_a_square():
    text, _ = drawable("oak \U0010fffd")  # for private use: no font has it
    assert text == f"oak {MISSING}"


def test_bytes_that_are_no_text_become_squares():
    """Names of files may hold them, as lone surrogates."""
    assert drawable("a\udcff") == (f"a{MISSING}", [FONT])


def test_control_characters_become_blanks_and_marks_without_a_shape_go():
    assert drawable("two\nlines\t\x00here")[0] == "two lines here"
    assert drawable("a\U000e0001b")[0] == "ab"


@pytest.mark.parametrize(("text", "room"), [("oak", 3), ("ハム", 4), ("é", 1), ("e\N{COMBINING ACUTE ACCENT}", 1)])
def test_room_is_counted_in_letters(text, room):
    assert columns(text) == room


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("oak", "oak"),
        ("a house finch", "a house\nfinch"),
        ("house_finch", "house_\nfinch"),
        ("Donaudampfschiff", "Donaudam\npfschiff"),
        ("Donaudampfschifffahrt", "Donaudam\npfschif…"),
        ("ハムスター", "ハムスタ\nー"),
        ("", ""),
    ],
)
def test_names_are_broken_and_shortened_to_two_lines(text, expected):
    assert wrap(text, 8) == expected
    assert all(columns(line) <= 8 for line in expected.split("\n"))


@pytest.mark.parametrize("room", [1, 2, 5])
def test_a_shortened_name_keeps_to_its_room(room):
    assert columns(shorten("ハムスター oak tree", room)) <= room
