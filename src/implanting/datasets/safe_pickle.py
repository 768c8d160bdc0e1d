"""Pickles of arrays and plain containers, read without running anything that the file asks for.

A pickle is a program. This reader answers its requests for numpy's constructors with stand-ins of our own, which can
only make arrays of numbers or text; every other name, and arrays of Python objects, are refused. What is admitted
stands at the end, in one table. Files of Python 2 are read with their strings as bytes, which needs half the memory of
decoding them.

A few bytes of a pickle can make a list without end, by naming one part many times. So what comes out is counted while
it is unwrapped, and may not have many more parts than the file has bytes; an array may not claim more numbers than its
bytes hold.
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

BinaryFile = Any  # anything that is read like a binary file; archives give files of their own kind

PARTS = 10_000
"""Parts that any pickle may have, however short."""

COPIES = 4
"""Times the size of the file that text and bytes may take which are made of others."""

DEEPEST = 50
"""Containers that one may stand in."""

AXES = 8
"""Most axes of an array."""

READING_FAULTS = (
    pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, KeyError, MemoryError, OverflowError,
    RecursionError, TypeError, ValueError,
)  # fmt: skip
"""What damaged pickles raise."""


PythonUnpickler: Any = pickle._Unpickler


class Reader(PythonUnpickler):  # type: ignore[misc] # not known to the type hints of Python
    """Python's own unpickler in Python, which finds nothing but the admitted names and looks at what it is asked to do.

    The one in C is faster, but takes memory for whatever number a file names, and cannot be asked before it computes
    the hash of a key: that of tuples within tuples never ends.
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
        self.append(bytearray(self.read(length)))  # its parent takes the memory first

    dispatch = {  # noqa: RUF012 (as it stands in its parent)
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
    """Raise for keys whose hash may take for ever."""
    for key in keys:
        if not isinstance(key, str | bytes | int | float | np.generic | None):
            raise RefusalError(f"a {type(key).__name__} as a key")


def load_pickle(path: Path) -> Any:
    """The content of a pickle file: arrays, numbers, text, bytes, lists, tuples and dictionaries."""
    with open_file(path) as file:
        return load_pickle_from(file, str(path), path.stat().st_size)


def load_pickle_from(file: BinaryFile, name: str, size: int) -> Any:
    """The same from an open file of so many bytes; `name` is for messages."""
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
    """Text for a byte string of Python 2; anything else as it is."""
    return value.decode("latin1") if isinstance(value, bytes) else value


class _Unwrapping:
    """Arrays for their stand-ins, and text for the byte-string keys of Python 2, within a budget of parts."""

    def __init__(self, size: int) -> None:
        self.left = PARTS + size
        self.around: set[int] = set()
        """The containers that the one at hand stands in."""

    def unwrap(self, value: Any) -> Any:
        """The value as data sets have it."""
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
    """A file of which no read may ask for more than is left, since memory is taken before it is read."""

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
        if not isinstance(pickled, PickledDtype):
            raise RefusalError("numpy arrays of another kind of dtype")
        _check_shape(shape, pickled.dtype, len(raw))
        self.array = np.empty(0, np.uint8)
        filled: Any = (1, shape, pickled.dtype, bool(fortran), raw)
        self.array.__setstate__(filled)  # shares the bytes, where a constructor would copy them


def _array_from_buffer(buffer: bytes | bytearray, pickled: PickledDtype, shape: Any, order: Any) -> np.ndarray:
    """What protocol 5 asks for in place of `_reconstruct`."""
    _check_shape(shape, pickled.dtype, len(buffer))
    array: np.ndarray = np.frombuffer(buffer, pickled.dtype).reshape(shape, order=order)
    return array


def _check_shape(shape: Any, dtype: np.dtype[Any], size: int) -> None:
    """Raise unless an array of this shape has as many bytes as there are; numpy would believe it."""
    if not isinstance(shape, tuple) or not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"array of shape {shape!r}")
    if len(shape) > AXES or math.prod(shape) * dtype.itemsize != size or dtype.itemsize == 0:
        raise ValueError(f"array {dtype} of shape {shape} in {size} bytes")


def _scalar(pickled: PickledDtype, raw: bytes) -> Any:
    return np.frombuffer(raw, pickled.dtype, count=1)[0]


def encode(text: str, encoding: str = "latin1") -> bytes:
    """How Python 3 writes bytes in the old protocols."""
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
    """How protocol 5 writes buffers; from a number it would be as many zeros."""
    return bytearray(_bytes(*arguments))


def _bytes(*arguments: Any) -> bytes:
    """How Python 3 writes empty bytes in the old protocols."""
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
"""All that a pickle may name, by module and name."""
