"""The record of how a shard was made: it holds for these bytes and these options, and for nothing else."""

from pathlib import Path

import pytest

from implanting.bulk import content_digest, is_made_by, write_record

MADE_BY = {"classifier": "a", "top": 1, "unknown": None, "refuse": 0.05}


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    shard = tmp_path / "a-1-of-2.csv"
    shard.write_bytes(b"image\na.jpg\n")
    write_record(shard, MADE_BY)
    return shard


def test_the_same_bytes_made_in_the_same_way(shard):
    assert is_made_by(shard, dict(reversed(MADE_BY.items())))
    assert sorted(path.name for path in shard.parent.iterdir()) == [".a-1-of-2.csv.made", "a-1-of-2.csv"]


@pytest.mark.parametrize("change", [{"classifier": "b"}, {"top": 3}, {"unknown": "none"}, {"refuse": None}])
def test_another_way(shard, change):
    assert not is_made_by(shard, MADE_BY | change)


def test_other_bytes(shard):
    shard.write_bytes(b"image\nb.jpg\n")
    assert not is_made_by(shard, MADE_BY)
    write_record(shard, MADE_BY)
    assert is_made_by(shard, MADE_BY)


def test_no_record(shard):
    record = shard.with_name(".a-1-of-2.csv.made")
    record.unlink()
    assert not is_made_by(shard, MADE_BY)
    record.mkdir()
    assert not is_made_by(shard, MADE_BY)


def test_somebodys_file_in_the_place_of_the_record_stays(shard):
    record = shard.with_name(".a-1-of-2.csv.made")
    record.write_text("mine")
    write_record(shard, MADE_BY)
    assert record.read_text() == "mine"
    assert not is_made_by(shard, MADE_BY)


def test_the_digest_is_of_the_content(shard):
    copy = shard.with_name("copy.csv")
    copy.write_bytes(shard.read_bytes())
    assert content_digest(copy) == content_digest(shard)
    assert content_digest(shard.with_name("gone.csv")) is None
