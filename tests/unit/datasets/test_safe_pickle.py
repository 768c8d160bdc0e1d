"""Data comes through in every protocol; code never does."""

import builtins
import io
import os
import pickle
import pickletools
from collections import OrderedDict

import numpy as np
import pytest

import python2_pickle
from implanting.datasets.safe_pickle import load_pickle
from implanting.errors import DataError, UnsafePickle


@pytest.fixture
def load(tmp_path):
    def load_bytes(content: bytes):
        path = tmp_path / "data.pickle"
        path.write_bytes(content)
        return load_pickle(path)

    return load_bytes


def assert_same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            assert_same(found[key], expected[key])
    elif isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected)
        assert (found.dtype.kind, found.dtype.itemsize) == (expected.dtype.kind, expected.dtype.itemsize)
    else:
        assert found == expected


@pytest.mark.parametrize("protocol", range(6))
def test_arrays_and_containers_in_every_protocol(load, protocol):
    content = {
        "data": np.arange(2400, dtype=np.uint8).reshape(100, 2, 4, 3),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "big": np.arange(5, dtype=">i4"),
        "words": np.array(["oak", "elm"]),
        "empty": np.zeros((0, 3), np.float32),
        "labels": [1, 2, np.int64(3)],
        "names": {0: "oak", 1: "Öl"},
        "raw": b"\x00\xff",
        "set": {1, 2},
        "tuple": (1, None, True, 2.5),
    }
    assert_same(load(pickle.dumps(content, protocol)), content)


def test_ordered_dictionaries_become_plain(load):
    assert load(pickle.dumps(OrderedDict(a=1))) == {"a": 1}


def test_python_2(load):
    content = load(python2_pickle.dumps({b"data": np.arange(12, dtype=np.uint8), "labels": [1, 2], "name": b"x"}))
    np.testing.assert_array_equal(content["data"], np.arange(12, dtype=np.uint8))
    assert (content["labels"], content["name"]) == ([1, 2], b"x")


def test_large_arrays_share_the_bytes_of_the_file(load):
    array = load(pickle.dumps(np.zeros(2000, np.uint8), 4))
    assert not array.flags.owndata
    assert array.flags.writeable


class Attack:
    """Pickles as a call of any function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    ("attack", "name"),
    [
        (Attack(os.system, "touch attacked"), "posix.system"),
        (Attack(builtins.eval, "1"), "eval"),
        (Attack(getattr, "text", "format"), "getattr"),
        (Attack(np.load, "attacked.npy"), r"numpy.*\.load"),
        (Attack(np.fromfile, "attacked"), "fromfile"),
        (Attack(np.vectorize, len), "vectorize"),
    ],
)
def test_calls_are_refused_and_named(load, monkeypatch, tmp_path, attack, name, protocol):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsafePickle, match=rf"data\.pickle asks for .*{name}"):
        load(pickle.dumps({"data": attack}, protocol))
    assert not (tmp_path / "attacked").exists()


def stack_global(module: str, name: str, argument: str) -> bytes:
    """The protocol-4 program module.name(argument)."""
    text = b"".join(b"\x8c" + bytes([len(word)]) + word.encode() for word in (module, name))
    return b"\x80\x04" + text + b"\x93\x8c" + bytes([len(argument)]) + argument.encode() + b"\x85R."


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("numpy", "ndarray.tofile"),
        ("numpy", "lib.npyio.load"),
        ("numpy", "ndarray.__class__"),
        ("numpy", "core.multiarray.fromstring"),
        ("collections", "OrderedDict.__init__.__globals__"),
        ("builtins", "bytes.__class__.__subclasses__"),
        ("numpy.core.multiarray", "fromfile"),
        ("_codecs", "lookup"),
        ("", "eval"),
    ],
)
def test_dotted_and_neighbouring_names_are_refused(load, module, name):
    program = stack_global(module, name, "x")
    pickletools.dis(program, io.StringIO())  # it is a well-formed pickle
    with pytest.raises(UnsafePickle, match="nothing of it was run"):
        load(program)


@pytest.mark.parametrize("protocol", range(6))
def test_arrays_of_objects_and_structures_are_refused(load, protocol):
    for array in (np.array([{}, []], object), np.zeros(2, [("a", "u1"), ("b", "i4")])):
        with pytest.raises(UnsafePickle, match="numpy arrays of"):
            load(pickle.dumps(array, protocol))


def test_codecs_other_than_latin1_are_refused(load):
    with pytest.raises(UnsafePickle, match=r"_codecs\.encode to rot13"):
        load(b"c_codecs\nencode\n(Vx\nVrot13\ntR.")


@pytest.mark.parametrize("name", [b"cnumpy\ndtype\n", b"cnumpy.core.multiarray\n_reconstruct\n", b"c_codecs\nencode\n"])
def test_a_pickle_cannot_change_what_it_names(load, name):
    with pytest.raises(UnsafePickle, match="a change of what it names"):
        load(name + b"}Vcall\nNsb.")


def test_impossible_shapes(load):
    raw = pickle.dumps(np.arange(6, dtype=np.uint8).reshape(2, 3), 2)
    assert raw.count(b"K\x02K\x03\x86") == 1
    with pytest.raises(DataError, match="array of shape"):
        load(raw.replace(b"K\x02K\x03\x86", b"J\xfe\xff\xff\xffJ\xfd\xff\xff\xff\x86"))
    with pytest.raises(DataError, match="damaged"):
        load(raw.replace(b"K\x02K\x03\x86", b"K\x02K\x04\x86"))


def test_truncated_empty_and_foreign_files(load):
    whole = pickle.dumps({"data": np.zeros(5000, np.uint8)})
    for content in (whole[:-1], whole[:1000], b"", b"PK\x03\x04 not a pickle", b"hello\n"):
        with pytest.raises(DataError, match=r"data\.pickle is not a pickle, or is damaged or truncated"):
            load(content)


def tuples_within_tuples(levels: int) -> bytes:
    """A tuple of the tuple before, twice, and so on: few bytes, and a hash that never ends."""
    content = b"K\x01K\x02\x86q\x00"
    for level in range(levels):
        content += b"h%ch%c\x86q%c" % (level, level, level + 1)
    return content


ARRAY = b"cbuiltins\nbytearray\n"
COPIES = b"\x80\x02](" + ARRAY + b"C\xc8" + b"x" * 200 + b"q\x00\x85R" + (ARRAY + b"h\x00\x85R") * 9000 + b"e."


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x80\x02}" + tuples_within_tuples(60) + b"K\x01s.", "a tuple as a key"),
        (b"\x80\x04\x8f(" + tuples_within_tuples(60) + b"\x90.", "a tuple as a key"),
        (b"\x80\x02" + tuples_within_tuples(30) + b".", "more often than a data set could"),
        (b"]q\x00h\x00a.", "holds itself"),
        (b"\x80\x05\x96" + b"\xff" * 6 + b"\x0f\x00.", "damaged or truncated"),
        (b"\x80\x04\x95" + b"\xff" * 7 + b"\x0fN.", "damaged or truncated"),
        (b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.", "bytes made of something else"),
        (b"\x80\x02Nr\xff\xff\xff\x7f.", None),
        (COPIES, "copies its parts"),
    ],
    ids=["key", "set", "shared", "circle", "bytes", "frame", "zeros", "memo", "copies"],
)  # fmt: skip
def test_what_expands_without_end_is_refused(load, content, said):
    if said is None:
        assert load(content) is None
        return
    with pytest.raises(DataError, match=said):
        load(content)


def test_an_array_claims_no_more_than_its_bytes(load):
    content = pickle.dumps(np.zeros(8, np.uint8), 2).replace(b"K\x08\x85", b"J\xff\xff\xff\x7f\x85")
    with pytest.raises(DataError, match=r"in 8 bytes"):
        load(content)
