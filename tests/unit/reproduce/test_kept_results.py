import numpy as np
import pytest

from implanting.config import TaskConfig
from implanting.fewshot import Result
from implanting.reproduce import KeptResults

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
