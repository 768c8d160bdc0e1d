"""Read JSON documents from files into dataclasses, and check them as a whole.

msgspec does both. Unlike Python's own reader, it rejects `NaN` and `Infinity`, so all numbers are finite, and it raises
an error for deep nesting instead of exhausting the stack. We chose it over pydantic because it loads faster
(docs/decisions/0017-what-is-read.md).
"""

from typing import Any, TypeVar

import msgspec

Document = TypeVar("Document")

LONGEST = 64 * 2**20
"""Limit on the bytes of a document; those of large classifiers have a few MB."""


def parse_json(text: str | bytes) -> Any:
    """Parse JSON text into plain values; a `ValueError` explains what is wrong with it."""
    if len(text) > LONGEST:
        raise ValueError(f"a document of {len(text)} bytes; at most {LONGEST} are read")
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except msgspec.MsgspecError as fault:
        raise ValueError(str(fault)) from None
    except UnicodeError as fault:
        raise ValueError(f"it is not text ({fault})") from None


def checked(values: Any, kind: type[Document]) -> Document:
    """Convert plain values to a dataclass or another type, checking the type and the bounds of every field.

    Unknown fields are ignored; a `ValueError` names the field that is wrong.
    """
    try:
        return msgspec.convert(values, kind)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except msgspec.MsgspecError as fault:
        raise ValueError(str(fault).replace("`$.", "`").replace("`$`", "the document").replace("`", "'")) from None
