import numpy as np
import pytest

from implanting.config import TaskConfig
from implanting.fewshot import Result
from implanting.reproduce import KeptResults
from implanting.reproduce.kept_results import PACKAGE, fingerprint_of_source

RESULT = Result("toy", TaskConfig(shot=1, tasks=2), "images", np.array([0.25, 1 / 3]), np.array([[3, 1], [0, 4]]))


@pytest.fixture
def kept(tmp_path):
    return KeptResults(tmp_path / "results")


def test_a_result_comes_back_as_it_was(kept):
    file = kept.file_of(base="a", tasks={"shot": 1})
    assert kept.read(file) is None
    kept.write(file, RESULT)
    found = kept.read(file)
    assert (found.method, found.config, found.images) == (RESULT.method, RESULT.config, RESULT.images)
    assert found.per_task.tolist() == RESULT.per_task.tolist()
    assert found.confusion.tolist() == RESULT.confusion.tolist()


def test_whatever_a_result_depends_on_names_its_file(kept):
    files = [kept.file_of(base=base, tasks={"shot": shot}) for base in "ab" for shot in (1, 5)]
    assert len(set(files)) == 4
    assert kept.file_of(tasks={"shot": 1}, base="a") == files[0]


@pytest.mark.parametrize("spoil", [lambda content: content[:-40], lambda content: b"", lambda content: b"no archive"])
def test_a_spoilt_file_counts_as_none(kept, spoil):
    file = kept.file_of(base="a")
    kept.write(file, RESULT)
    file.write_bytes(spoil(file.read_bytes()))
    assert kept.read(file) is None


@pytest.mark.parametrize(
    ("field", "value"), [(10, 99), (10, 8), (8, 1), (6, 214)], ids=["unknown", "deflated", "encrypted", "newer"]
)
def test_an_archive_packed_in_another_way_counts_as_none(kept, field, value):
    """The fields are those of an entry in an archive's directory, which zipfile believes before it reads a member."""
    file = kept.file_of(base="a")
    kept.write(file, RESULT)
    content = bytearray(file.read_bytes())
    content[content.index(b"PK\x01\x02") + field] = value
    file.write_bytes(content)
    assert kept.read(file) is None


def write_package(folder, **files):
    (folder / "room").mkdir(parents=True)
    for name, content in {"first": "one = 1\n", "room/second": "two = 2\n", **files}.items():
        (folder / f"{name}.py").write_text(content)
    return folder


@pytest.mark.parametrize(
    ("name", "content"),
    [("first", "one = 2\n"), ("room/second", "two = 3\n"), ("room/third", ""), ("first", "one = 1")],
)
def test_any_change_of_the_source_is_another_code(tmp_path, name, content):
    before = fingerprint_of_source(write_package(tmp_path / "before"))
    assert fingerprint_of_source(write_package(tmp_path / "same")) == before
    assert fingerprint_of_source(write_package(tmp_path / "after", **{name: content})) != before


def test_a_result_of_other_code_is_not_taken_up(kept, tmp_path, monkeypatch):
    assert (PACKAGE / "reproduce" / "kept_results.py").exists()  # the code that is running
    kept.write(kept.file_of(base="a"), RESULT)
    monkeypatch.setattr("implanting.reproduce.kept_results.PACKAGE", write_package(tmp_path / "package"))
    assert kept.read(kept.file_of(base="a")) is None
