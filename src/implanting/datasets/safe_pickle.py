"""Pickles of arrays and plain containers, read without running anything that the file asks for.

A pickle is a program. This reader answers its requests for numpy's constructors with stand-ins of our own, which can
only make arrays of numbers or text; every other name, and arrays of Python objects, are refused. What is admitted
stands at the end, in one table. Files of Python 2 are read with their strings as bytes, which needs half the memory of
decoding them.
"""

import pickle
from collections import OrderedDict
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

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


PLAIN_KINDS = "biufcSU"
"""Kinds of numpy dtype without Python objects, fields or dates."""


class RefusalError(Exception):
    """A pickle asked for something that is not made; the message says what."""


class StandIn:
    """A callable that a pickle may call but not change (pickles can set attributes of what they name)."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise RefusalError("a change of what it names")


class PickledDtype:
    """What `numpy.dtype` makes in a pickle: the code first, then the state, of which only the byte order is taken."""

    __slots__ = ("dtype",)

    def __init__(self, code: str | bytes, *_: Any) -> None:
        self.dtype: np.dtype[Any] = np.dtype(_ascii(code))
        if self.dtype.kind not in PLAIN_KINDS:
            raise RefusalError(f"numpy arrays of dtype {self.dtype}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if any(part is not None for part in state[2:5]):
            raise RefusalError("numpy arrays of structures")
        order: Any = _ascii(state[1])
        self.dtype = self.dtype.newbyteorder(order)


class PickledArray:
    """What `numpy.core.multiarray._reconstruct` makes in a pickle: empty first, then filled by its state."""

    __slots__ = ("array",)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, pickled, fortran, raw = state
        if not isinstance(raw, bytes):
            raise RefusalError("numpy arrays of Python objects")
        if not all(isinstance(length, int) and length >= 0 for length in shape):
            raise ValueError(f"array of shape {shape}")  # numpy would believe it
        self.array = np.empty(0, np.uint8)
        filled: Any = (1, shape, pickled.dtype, bool(fortran), raw)
        self.array.__setstate__(filled)  # shares the bytes, where a constructor would copy them


def _array_from_buffer(buffer: bytes | bytearray, pickled: PickledDtype, shape: Any, order: Any) -> np.ndarray:
    """What protocol 5 asks for in place of `_reconstruct`."""
    array: np.ndarray = np.frombuffer(buffer, pickled.dtype).reshape(shape, order=order)
    return array


def _scalar(pickled: PickledDtype, raw: bytes) -> Any:
    return np.frombuffer(raw, pickled.dtype, count=1)[0]


def encode(text: str, encoding: str = "latin1") -> bytes:
    """How Python 3 writes bytes in the old protocols."""
    if encoding not in ("latin1", "latin-1"):
        raise RefusalError(f"_codecs.encode to {encoding}")
    return text.encode("latin1")


def _ascii(value: Any) -> str:
    text = value.decode("ascii") if isinstance(value, bytes) else value
    if not isinstance(text, str):
        raise RefusalError(f"a numpy dtype of {type(text).__name__}")
    return text


MULTIARRAY: dict[str, Any] = {"_reconstruct": StandIn(lambda *_: PickledArray()), "scalar": StandIn(_scalar)}
NUMERIC: dict[str, Any] = {"_frombuffer": StandIn(_array_from_buffer)}
BUILTINS: dict[str, Any] = {"set": set, "frozenset": frozenset, "bytearray": bytearray, "bytes": bytes}
ADMITTED: dict[str, dict[str, Any]] = {
    "numpy": {"ndarray": StandIn(PickledArray), "dtype": StandIn(PickledDtype)},
    "numpy.core.multiarray": MULTIARRAY,
    "numpy._core.multiarray": MULTIARRAY,
    "numpy.core.numeric": NUMERIC,
    "numpy._core.numeric": NUMERIC,
    "_codecs": {"encode": StandIn(encode)},
    "collections": {"OrderedDict": OrderedDict},
    "builtins": BUILTINS,
    "__builtin__": BUILTINS,
}
"""All that a pickle may name, by module and name."""
