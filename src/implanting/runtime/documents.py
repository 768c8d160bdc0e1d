"""JSON documents that files hold, read into the dataclasses that the code uses, and checked as a whole on the way.

msgspec does both. Unlike Python's own reader it takes no `NaN` or `Infinity`, so that all numbers are finite, and it
gives up on deep nesting instead of exhausting the stack. It was chosen over pydantic for the time it takes to load
(docs/decisions/0017-what-is-read.md).
"""

from typing import Any, TypeVar

import msgspec

Document = TypeVar("Document")

LONGEST = 64 * 2**20
"""Bytes of a document; those of large classifiers have a few MB."""


def parse_json(text: str | bytes) -> Any:
    """What a JSON text says, in plain values; a `ValueError` says what is wrong with it."""
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
    """Plain values as a dataclass, or as another type: every field of its type and within its bounds.

    Fields that the type does not have are left out; a `ValueError` names the field that is wrong.
    """
    try:
        return msgspec.convert(values, kind)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except msgspec.MsgspecError as fault:
        raise ValueError(str(fault).replace("`$.", "`").replace("`$`", "the document")) from None
