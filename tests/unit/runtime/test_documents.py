"""Documents are read as a whole or refused by a `ValueError` that names the place."""

from dataclasses import dataclass
from typing import Annotated

import pytest
from msgspec import Meta

from implanting.runtime import checked, parse_json


@dataclass(frozen=True)
class Inner:
    count: Annotated[int, Meta(ge=0)]


@dataclass(frozen=True)
class Outer:
    name: str
    parts: tuple[Inner, ...]
    share: float | None = None


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", '{"a": Infinity}', "1e999", "[" * 100_000, '{"a":' * 5000, b"\xff\xfe", '"\ud800"']
)
def test_what_is_no_finite_shallow_json_is_refused(text):
    with pytest.raises(ValueError, match=r"\S"):
        parse_json(text)


def test_values_become_the_dataclass():
    values = parse_json('{"name": "a", "parts": [{"count": 3, "later": 1}], "share": 1}')
    assert checked(values, Outer) == Outer("a", (Inner(3),), 1.0)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"parts": []}, "name"),
        ({"name": 3, "parts": []}, "name"),
        ({"name": "a", "parts": [{"count": -1}]}, r"parts\[0\]\.count"),
        ({"name": "a", "parts": [{"count": 1.5}]}, "count"),
        ({"name": "a", "parts": [], "share": "x"}, "share"),
        ([], "object"),
        (None, "object"),
    ],
)
def test_what_is_wrong_is_named(values, said):
    with pytest.raises(ValueError, match=said):
        checked(values, Outer)
