"""Read pickles of arrays and plain containers without running any code the file asks for.

A pickle is a program. When it asks for numpy's constructors, this reader substitutes its own stand-ins, which can only
make arrays of numbers or text. Every other name, and arrays of Python objects, are rejected. One table at the end of
this file lists all admitted names. Strings in Python 2 files are read as bytes, which needs half the memory of decoding
them.

A few bytes of a pickle can describe an endless list by referring to one part many times. The parts are therefore
counted while the result is unwrapped, and there may not be many more of them than the file has bytes. An array may not
claim more numbers than its bytes contain.
"""

import math
import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from implanting.errors import DataError, UnsafePickle
from implanting.runtime import open_file

BinaryFile = Any  # anything that reads like a binary file; archives have their own file types

PARTS = 10_000
"""Number of parts that every pickle may have, however short."""

COPIES = 4
"""Limit on the total size of text and bytes that are made from other parts, as a multiple of the file's size."""

DEEPEST = 50
"""The deepest allowed nesting of containers."""

AXES = 8
"""The largest number of axes of an array."""

READING_FAULTS = (
    pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, KeyError, MemoryError, OverflowError,
    RecursionError, TypeError, ValueError,
)  # fmt: skip
"""The exceptions that damaged pickles raise."""


PythonUnpickler: Any = pickle._Unpickler


class Reader(PythonUnpickler):  # type: ignore[misc] # not known to the type hints of Python
    """Python's pure-Python unpickler, restricted to the admitted names, with checks before dangerous operations.

    The C version is faster, but it allocates whatever amount of memory a file claims, and it offers no hook before it
    hashes a key: hashing nested tuples can take forever.
    """

    def __init__(self, file: Any, size: int) -> None:
        super().__init__(file, encoding="bytes")
        self.allowance = COPIES * size + PARTS

    def find_class(self, module: str, name: str) -> Any:
        try:
            return ADMITTED[module][name]
        except KeyError:
            raise RefusalError(f"{module}.{name}") from None

    def load_setitem(self) -> None:
        _check_keys(self.stack[-2:-1])
        super().load_setitem()

    def load_setitems(self) -> None:
        _check_keys(self.stack[::2])
        super().load_setitems()

    def load_dict(self) -> None:
        _check_keys(self.stack[::2])
        super().load_dict()

    def load_additems(self) -> None:
        _check_keys(self.stack)
        super().load_additems()

    def load_frozenset(self) -> None:
        _check_keys(self.stack)
        super().load_frozenset()

    def load_reduce(self) -> None:
        if not isinstance(self.stack[-2], StandIn):
            raise RefusalError("a call of what it made")
        super().load_reduce()
        if isinstance(self.stack[-1], str | bytes | bytearray):
            self.allowance -= len(self.stack[-1])
        if self.allowance < 0:
            raise ValueError("it copies its parts more often than a data set could")

    def load_build(self) -> None:
        if not isinstance(self.stack[-2], PickledArray | PickledDtype | StandIn):
            raise RefusalError("a change of what it made")
        super().load_build()

    def load_bytearray8(self) -> None:
        (length,) = struct.unpack("<Q", self.read(8))
        self.append(bytearray(self.read(length)))  # the base class allocates before reading

    dispatch = {  # noqa: RUF012 (as in the base class)
        **PythonUnpickler.dispatch,
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
        pickle.DICT[0]: load_dict,
        pickle.ADDITEMS[0]: load_additems,
        pickle.FROZENSET[0]: load_frozenset,
        pickle.REDUCE[0]: load_reduce,
        pickle.BUILD[0]: load_build,
        pickle.BYTEARRAY8[0]: load_bytearray8,
    }


def _check_keys(keys: Iterable[Any]) -> None:
    """Reject keys whose hash may take forever to compute."""
    for key in keys:
        if not isinstance(key, str | bytes | int | float | np.generic | None):
            raise RefusalError(f"a {type(key).__name__} as a key")


def load_pickle(path: Path) -> Any:
    """Read a pickle file of arrays, numbers, text, bytes, lists, tuples and dictionaries."""
    with open_file(path) as file:
        return load_pickle_from(file, str(path), path.stat().st_size)


def load_pickle_from(file: BinaryFile, name: str, size: int) -> Any:
    """Read a pickle from an open file of `size` bytes; `name` is for messages."""
    try:
        return _Unwrapping(size).unwrap(Reader(_Within(file, size), size).load())
    except RefusalError as refusal:
        raise UnsafePickle(
            f"{name} asks for {refusal}; data sets need only arrays and plain containers, so nothing of it was run: "
            "get the file from a source you trust"
        ) from None
    except MemoryError:
        raise DataError(f"{name} asks for more memory than there is: get it again, from a source you trust") from None
    except READING_FAULTS as fault:
        raise DataError(f"{name} is not a pickle, or is damaged or truncated ({fault}): get it again") from fault


def as_text(value: Any) -> Any:
    """Convert a byte string of Python 2 to text; return anything else unchanged."""
    return value.decode("latin1") if isinstance(value, bytes) else value


class _Unwrapping:
    """Replaces stand-ins by arrays and byte-string keys of Python 2 by text, within a budget of parts."""

    def __init__(self, size: int) -> None:
        self.left = PARTS + size
        self.around: set[int] = set()
        """The containers that enclose the current one."""

    def unwrap(self, value: Any) -> Any:
        """Return the value with all stand-ins replaced."""
        self.left -= 1
        if self.left < 0:
            raise ValueError("it names its parts more often than a data set could")
        if isinstance(value, PickledArray):
            return value.array
        if not isinstance(value, dict | list | tuple):
            return value
        if id(value) in self.around or len(self.around) > DEEPEST:
            raise ValueError("it holds itself, or is nested too deeply")
        self.around.add(id(value))
        try:
            if isinstance(value, dict):
                return {as_text(key): self.unwrap(item) for key, item in value.items()}
            return type(value)(self.unwrap(item) for item in value)
        finally:
            self.around.discard(id(value))


class _Within:
    """A file that rejects reads beyond its end, since unpicklers allocate memory before they read."""

    def __init__(self, file: BinaryFile, size: int) -> None:
        self.file, self.left = file, size

    def read(self, count: int = -1) -> bytes:
        if count > self.left:
            raise EOFError(f"{count} bytes are asked for where {self.left} are left")
        content = self.file.read(count)
        self.left -= len(content)
        return content

    def readline(self) -> bytes:
        line = self.file.readline()
        self.left -= len(line)
        return line

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


PLAIN_KINDS = "biufcSU"
"""Kinds of numpy dtypes without Python objects, fields or dates."""


class RefusalError(Exception):
    """A pickle asked for something that is not admitted; the message says what."""


class StandIn:
    """A callable that a pickle may call but not modify (pickles can set attributes of objects they name)."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise RefusalError("a change of what it names")


class PickledDtype:
    """Stand-in for `numpy.dtype`: made from its code, then given a state, of which only the byte order is used."""

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
    """Stand-in for the result of `numpy.core.multiarray._reconstruct`: empty at first, then filled by its state."""

    __slots__ = ("array",)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, pickled, fortran, raw = state
        if not isinstance(raw, bytes):
            raise RefusalError("numpy arrays of Python objects")
        if not isinstance(pickled, PickledDtype):
            raise RefusalError("numpy arrays of another kind of dtype")
        _check_shape(shape, pickled.dtype, len(raw))
        self.array = np.empty(0, np.uint8)
        filled: Any = (1, shape, pickled.dtype, bool(fortran), raw)
        self.array.__setstate__(filled)  # shares the bytes; a constructor would copy them


def _array_from_buffer(buffer: bytes | bytearray, pickled: PickledDtype, shape: Any, order: Any) -> np.ndarray:
    """Stand-in for the function that protocol 5 uses instead of `_reconstruct`."""
    _check_shape(shape, pickled.dtype, len(buffer))
    array: np.ndarray = np.frombuffer(buffer, pickled.dtype).reshape(shape, order=order)
    return array


def _check_shape(shape: Any, dtype: np.dtype[Any], size: int) -> None:
    """Raise an error unless an array of this shape has exactly `size` bytes; numpy does not check it."""
    if not isinstance(shape, tuple) or not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"array of shape {shape!r}")
    if len(shape) > AXES or math.prod(shape) * dtype.itemsize != size or dtype.itemsize == 0:
        raise ValueError(f"array {dtype} of shape {shape} in {size} bytes")


def _scalar(pickled: PickledDtype, raw: bytes) -> Any:
    return np.frombuffer(raw, pickled.dtype, count=1)[0]


def encode(text: str, encoding: str = "latin1") -> bytes:
    """Stand-in for `_codecs.encode`, with which Python 3 writes bytes in the old protocols."""
    if encoding not in ("latin1", "latin-1"):
        raise RefusalError(f"_codecs.encode to {encoding}")
    return text.encode("latin1")


def _set(members: Any = ()) -> set[Any]:
    _check_keys(members)
    return set(members)


def _ordered(pairs: Any = ()) -> dict[Any, Any]:
    found = [tuple(pair) for pair in pairs]
    _check_keys(pair[0] for pair in found)
    return OrderedDict(found)


def _bytearray(*arguments: Any) -> bytearray:
    """Stand-in for `bytearray`, with which protocol 5 writes buffers; a number, which would mean zeros, is rejected."""
    return bytearray(_bytes(*arguments))


def _bytes(*arguments: Any) -> bytes:
    """Stand-in for `bytes`, with which Python 3 writes empty bytes in the old protocols."""
    if not all(isinstance(argument, bytes) for argument in arguments) or len(arguments) > 1:
        raise RefusalError("bytes made of something else")
    return b"".join(arguments)


def _ascii(value: Any) -> str:
    text = value.decode("ascii") if isinstance(value, bytes) else value
    if not isinstance(text, str):
        raise RefusalError(f"a numpy dtype of {type(text).__name__}")
    return text


MULTIARRAY: dict[str, Any] = {"_reconstruct": StandIn(lambda *_: PickledArray()), "scalar": StandIn(_scalar)}
NUMERIC: dict[str, Any] = {"_frombuffer": StandIn(_array_from_buffer)}
BUILTINS: dict[str, Any] = {
    "set": StandIn(_set),
    "frozenset": StandIn(lambda *arguments: frozenset(_set(*arguments))),
    "bytearray": StandIn(_bytearray),
    "bytes": StandIn(_bytes),
}
ADMITTED: dict[str, dict[str, Any]] = {
    "numpy": {"ndarray": StandIn(PickledArray), "dtype": StandIn(PickledDtype)},
    "numpy.core.multiarray": MULTIARRAY,
    "numpy._core.multiarray": MULTIARRAY,
    "numpy.core.numeric": NUMERIC,
    "numpy._core.numeric": NUMERIC,
    "_codecs": {"encode": StandIn(encode)},
    "collections": {"OrderedDict": StandIn(_ordered)},
    "builtins": BUILTINS,
    "__builtin__": BUILTINS,
}
"""Everything that a pickle may name, by module and name."""
