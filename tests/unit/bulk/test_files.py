"""Files of rows: there whole or not at all, by one run at a time, with names of any bytes."""

import csv
import json
import os
from pathlib import Path

import pytest

from implanting.bulk import columns, holds_answers, read_images, row_of, spelled, write_rows
from implanting.classifier import Answer
from implanting.errors import ConfigError
from implanting.images import Failure

NOT_UTF8 = os.fsdecode(b"caf\xe9 \xff.jpg")
NAMES = ["a.jpg", "with, comma.jpg", '"quoted".jpg', "line\nend.jpg", "=2+3.jpg", "日本.jpg", NOT_UTF8, "x\x1b[31m.jpg"]
ENDINGS = [".jsonl", ".csv", ".parquet"]


def rows(names: list[str]) -> list[dict]:
    answers = [Answer(Path(name), "oak", (("oak", 0.75),), 0.5) for name in names]
    return [row_of(each) for each in [*answers, Failure(len(names), Path("bad.jpg"), "it is empty")]]


@pytest.mark.parametrize("ending", ENDINGS)
def test_rows_come_back(tmp_path, ending):
    out = tmp_path / f"answers{ending}"
    write_rows(out, rows(NAMES))
    assert read_images(out) == [spelled(name, ending) for name in [*NAMES, "bad.jpg"]]
    assert list(tmp_path.iterdir()) == [out]


def test_names_of_any_bytes_survive(tmp_path):
    write_rows(tmp_path / "a.csv", rows([NOT_UTF8]))
    assert b"\ncaf\xe9 \xff.jpg,oak," in (tmp_path / "a.csv").read_bytes()
    write_rows(tmp_path / "a.jsonl", rows([NOT_UTF8]))
    first = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])
    assert os.fsencode(first["image"]) == b"caf\xe9 \xff.jpg"
    assert first["likeliest_probability"] == 0.75
    assert spelled(NOT_UTF8, ".parquet") == r"caf\xe9 \xff.jpg"


def test_a_csv_is_harmless_in_a_spreadsheet(tmp_path):
    write_rows(tmp_path / "a.csv", rows(NAMES))
    with (tmp_path / "a.csv").open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["image"] for line in lines][3:5] == [r"line\nend.jpg", "'=2+3.jpg"]
    assert lines[-1]["error"] == "it is empty"
    assert lines[0]["likeliest_probability"] == "0.75"


def test_parquet_has_types(tmp_path):
    import pyarrow.parquet

    write_rows(tmp_path / "a.parquet", rows(["a.jpg"]))
    table = pyarrow.parquet.read_table(tmp_path / "a.parquet")
    assert table["likeliest_probability"].to_pylist() == [0.75, None]
    assert table["error"].to_pylist() == [None, "it is empty"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kept", [0.3, 0.95])
def test_a_file_that_was_cut_off_is_told_from_a_whole_one(tmp_path, ending, kept):
    out = tmp_path / f"answers{ending}"
    write_rows(out, rows([f"{number}.jpg" for number in range(100)]))
    whole = read_images(out)
    content = out.read_bytes()
    out.write_bytes(content[: int(kept * len(content))])
    assert read_images(out) != whole


def test_nothing_is_left_of_rows_that_end_in_an_error(tmp_path):
    out = tmp_path / "answers.csv"
    out.write_text("what was there before")

    def broken():
        yield rows(["a.jpg"])[0]
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_rows(out, broken())
    assert out.read_text() == "what was there before"
    assert list(tmp_path.iterdir()) == [out]


def test_two_runs_do_not_write_one_file(tmp_path):
    out = tmp_path / "answers.csv"

    def slowly():
        with pytest.raises(ConfigError, match="is being written by another run"):
            write_rows(out, rows(["b.jpg"]))
        yield from rows(["a.jpg"])

    write_rows(out, slowly())
    assert read_images(out) == ["a.jpg", "bad.jpg"]
    assert list(tmp_path.iterdir()) == [out]


def test_the_lock_that_a_killed_run_left_is_taken_over(tmp_path):
    out = tmp_path / "answers.csv"
    (tmp_path / ".answers.csv.lock").touch()
    write_rows(out, rows(["a.jpg"]))
    assert read_images(out) == ["a.jpg", "bad.jpg"]
    assert list(tmp_path.iterdir()) == [out]


def test_somebodys_file_in_the_place_of_the_lock_stays(tmp_path):
    lock, out = tmp_path / ".answers.csv.lock", tmp_path / "answers.csv"
    lock.write_text("mine")
    write_rows(out, rows(["a.jpg"]))
    assert lock.read_text() == "mine"


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("top", [1, 3])
def test_answers_are_known_by_their_columns(tmp_path, ending, top):
    out = tmp_path / f"answers{ending}"
    write_rows(out, [{**dict.fromkeys(columns(top)), "image": "a.jpg"}], top)
    assert holds_answers(out)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    "content", [b"", b"image,price\na.jpg,3\n", b"[[[[", b"3\n", b'{"image": 1}\n', b"PAR1", b"\xff"]
)
def test_other_files_are_no_answers(tmp_path, ending, content):
    out = tmp_path / f"mine{ending}"
    out.write_bytes(content)
    assert not holds_answers(out)
    assert not holds_answers(tmp_path)
    os.mkfifo(tmp_path / f"pipe{ending}")
    assert not holds_answers(tmp_path / f"pipe{ending}")


@pytest.mark.parametrize(("name", "said"), [("a.txt", "must end in .jsonl"), ("gone/a.csv", "there is no folder")])
def test_places_that_cannot_be_written(tmp_path, name, said):
    from implanting.bulk import row_format

    with pytest.raises(ConfigError, match=said):
        row_format(tmp_path / name)
