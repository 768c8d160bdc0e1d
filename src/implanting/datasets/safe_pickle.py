"""Pickles of arrays and plain containers, read without running anything that the file asks for.

A pickle is a program. This reader answers its requests for numpy's constructors with stand-ins of our own; every
other name, and arrays of Python objects, are refused. Files of Python 2 are read with their strings as bytes, which
needs half the memory of decoding them.
"""

import pickle
from io import BufferedReader
from pathlib import Path
from typing import Any

from implanting.datasets.stand_ins import ADMITTED, PickledArray, RefusalError
from implanting.errors import DataError, UnsafePickle

READING_FAULTS = (
    pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, KeyError, MemoryError, OverflowError,
    RecursionError, TypeError, ValueError,
)  # fmt: skip
"""What damaged pickles raise."""


class Reader(pickle.Unpickler):
    """Finds nothing but the admitted names."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return ADMITTED[module][name]
        except KeyError:
            raise RefusalError(f"{module}.{name}") from None


def load_pickle(path: Path) -> Any:
    """The content of a pickle file: arrays, numbers, text, bytes, lists, tuples, sets and dictionaries."""
    with path.open("rb") as file:
        return load_pickle_from(file, str(path))


def load_pickle_from(file: BufferedReader, name: str) -> Any:
    """The same from an open file; `name` is for messages."""
    try:
        return _unwrap(Reader(file, encoding="bytes").load())
    except RefusalError as refusal:
        raise UnsafePickle(
            f"{name} asks for {refusal}; data sets need only arrays and plain containers, so nothing of it was run: "
            "get the file from a source you trust"
        ) from None
    except READING_FAULTS as fault:
        raise DataError(f"{name} is not a pickle, or is damaged or truncated ({fault}): get it again") from fault


def as_text(value: Any) -> Any:
    """Text for a byte string of Python 2; anything else as it is."""
    return value.decode("latin1") if isinstance(value, bytes) else value


def _unwrap(value: Any) -> Any:
    """Arrays for their stand-ins, and text for the byte-string keys of Python 2."""
    if isinstance(value, PickledArray):
        return value.array
    if isinstance(value, dict):
        return {as_text(key): _unwrap(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_unwrap(item) for item in value)
    return value
