"""Writes pickles as Python 2 did (protocol 2, byte strings), which Python 3 cannot: CIFAR-100 is published so."""

import struct

import numpy as np


def dumps(value) -> bytes:
    return b"\x80\x02" + _encode(value) + b"."


def _encode(value) -> bytes:
    if isinstance(value, dict):
        return b"}(" + b"".join(_encode(key) + _encode(item) for key, item in value.items()) + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(map(_encode, value)) + b"e"
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    raw = value.encode("ascii") if isinstance(value, str) else value
    return b"T" + struct.pack("<i", len(raw)) + raw


def _encode_array(array: np.ndarray) -> bytes:
    order, code = array.dtype.str[:1], array.dtype.str[1:]
    dtype = b"cnumpy\ndtype\n(" + _encode(code) + _encode(0) + _encode(1) + b"tR"
    dtype += b"(" + _encode(3) + _encode(order) + b"NNN" + _encode(-1) + _encode(-1) + _encode(0) + b"tb"
    shape = b"(" + b"".join(map(_encode, array.shape)) + b"t"
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(" + _encode(0) + b"t" + _encode("b") + b"tR"
    return empty + b"(" + _encode(1) + shape + dtype + b"I00\n" + _encode(array.tobytes()) + b"tb"
