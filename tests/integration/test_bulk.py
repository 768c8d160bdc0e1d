"""`implanting predict` over many images: streamed, in shards, sorted; bad files are rows and nothing is lost."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from implanting.bulk import read_images
from implanting.classifier import ImageClassifier
from implanting.classifier.estimator import FewShotClassifier
from implanting.cli import main
from toys import coloured, noise

SHADES = coloured(classes=3, per_class=8, size=32, seed=1, prefix="shade")


@pytest.fixture(scope="module")
def trees(base_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trees") / "trees.safetensors"
    known = SHADES.labels.numpy() >= 0
    known[12:] = False
    classifier = FewShotClassifier(base_file, implants=False, unknown="none of these", refuse=0.3)
    classifier.fit(SHADES.images[known].numpy(), [f"class {label}" for label in SHADES.labels[known].tolist()])
    classifier.save(out)
    return out


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """Twelve photos in two folders, a damaged one, and files of other kinds."""
    album = tmp_path / "album"
    (album / "inner").mkdir(parents=True)
    for number, image in enumerate(SHADES.images[12:].numpy()):
        Image.fromarray(image).save(album / ("inner" if number % 2 else "") / f"{number:02}.png")
    (album / "05 damaged.png").write_bytes((album / "00.png").read_bytes()[:200])
    for name in ("film.mp4", "raw.CR2", "raw2.cr2"):
        (album / name).write_bytes(b"something else")
    return album


def predict(*arguments: object) -> int:
    return main(["predict", *map(str, arguments)])


def error_of(said: pytest.CaptureFixture[str]) -> str:
    (line,) = (line for line in said.readouterr().err.splitlines() if line.startswith("implanting: "))
    return line


def test_a_bad_file_is_a_row_and_files_of_other_kinds_are_counted(trees, album, capsys):
    assert predict(trees, album, "--csv") == 0
    said = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert len(rows) == 13
    (bad,) = (row for row in rows if row["error"])
    assert Path(bad["image"]).name == "05 damaged.png"
    assert bad["class"] == ""
    assert "skipped 3 files without an image's extension (2 .cr2, 1 .mp4); videos are not read" in said.err
    assert "1 of 13 images could not be read" in said.err
    assert predict(trees, album, "--jsonl") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["image"] for line in lines] == [row["image"] for row in rows]
    assert predict(trees, album) == 0
    assert "1 of them unreadable" in capsys.readouterr().out


def test_nothing_readable_is_told(trees, tmp_path, capsys):
    (tmp_path / "a.png").write_bytes(b"no image")
    assert predict(trees, tmp_path, "--json") == 2
    assert "is not an image that can be read" in error_of(capsys)


def test_a_list_on_standard_input_may_name_what_is_not_there(trees, album, capsys, monkeypatch):
    text = f"{album / '00.png'}\n{album / 'gone.png'}\n".encode() + os.fsencode(album) + b"/caf\xe9.png\n"
    shutil.copy(album / "00.png", os.fsencode(album) + b"/caf\xe9.png")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert predict(trees, "-", "--jsonl") == 0
    first, missing, other = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert "does not exist" in missing["error"]
    assert os.fsencode(other["image"]).endswith(b"caf\xe9.png")
    assert first["class"] == other["class"]


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_shards_together_are_the_whole(trees, album, tmp_path, capsys, ending):
    whole = tmp_path / f"whole{ending}"
    assert predict(trees, album, "--out", whole) == 0
    assert "13 images, 1 of them unreadable" in capsys.readouterr().out
    for number in (1, 2, 3):
        assert predict(trees, album, "--out", tmp_path / f"part{ending}", "--shard", f"{number}/3") == 0
    parts = [tmp_path / f"part-{number}-of-3{ending}" for number in (1, 2, 3)]
    images = [image for part in parts for image in read_images(part)]
    assert sorted(images) == sorted(read_images(whole))
    assert images.count(images[0]) == 1
    if ending == ".jsonl":
        rows = sorted(line for part in parts for line in part.read_text().splitlines())
        assert rows == sorted(whole.read_text().splitlines())


def test_a_finished_shard_is_skipped_and_any_other_is_made_again(trees, album, tmp_path, capsys):
    out, part = tmp_path / "a.csv", tmp_path / "a-2-of-2.csv"
    run = (trees, album, "--out", out, "--shard", "2/2")
    assert predict(*run) == 0
    whole, made = part.read_bytes(), part.stat().st_mtime_ns
    capsys.readouterr()
    assert predict(*run) == 0
    assert "finished before, 6 images; nothing to do" in capsys.readouterr().err
    assert part.stat().st_mtime_ns == made
    part.write_bytes(whole[: len(whole) // 2])
    assert predict(*run) == 0
    assert "made again" in capsys.readouterr().err
    assert part.read_bytes() == whole
    lines = whole.splitlines(keepends=True)
    part.write_bytes(b"".join(lines[:-1]))
    assert predict(*run) == 0
    assert "has 5 rows, which are not those of the 6 images named" in capsys.readouterr().err
    assert part.read_bytes() == whole


def remade(said: pytest.CaptureFixture[str], *run: object) -> bool:
    """Whether a command makes its shard again, after which it finds it finished."""
    said.readouterr()
    assert predict(*run) == 0
    again = "with these options: it is made again" in said.readouterr().err
    assert predict(*run) == 0
    assert "nothing to do" in said.readouterr().err
    return again


def test_a_shard_that_other_options_made_is_made_again(trees, album, tmp_path, capsys):
    out, part = tmp_path / "a.csv", tmp_path / "a-1-of-2.csv"
    run = (trees, album, "--out", out, "--shard", "1/2")
    assert predict(*run) == 0
    first = part.read_bytes()
    assert not remade(capsys, *run)
    assert remade(capsys, *run, "--top", "2")
    assert b"class_2" in part.read_bytes()
    assert remade(capsys, *run, "--unknown", "a stranger", "--refuse", "0.9")
    assert b",a stranger," in part.read_bytes()
    assert remade(capsys, *run, "--unknown", "a stranger", "--refuse", "0.8")
    assert remade(capsys, *run)
    assert part.read_bytes() == first


def test_a_shard_of_another_classifier_or_of_unknown_origin_is_made_again(trees, album, tmp_path, capsys):
    own, part = Path(shutil.copy(trees, tmp_path / "own.safetensors")), tmp_path / "a-1-of-2.csv"
    run = (own, album, "--out", tmp_path / "a.csv", "--shard", "1/2")
    assert predict(*run) == 0
    os.utime(own)
    assert not remade(capsys, *run)
    classifier = ImageClassifier.load(own)
    classifier.refuse = 0.9
    classifier.save(own)
    os.utime(own, (0, 0))  # older than the shard, as a copy may be
    assert remade(capsys, *run)
    (tmp_path / ".a-1-of-2.csv.made").unlink()
    assert remade(capsys, *run)
    part.write_bytes(part.read_bytes().replace(b"class 1", b"class 0"))
    assert remade(capsys, *run)


def test_a_finished_shard_is_still_sorted(trees, album, tmp_path, capsys):
    run = (trees, album, "--out", tmp_path / "a.csv", "--shard", "2/2")
    assert predict(*run) == 0
    assert predict(*run, "--sort-into", tmp_path / "sorted") == 0
    assert "nothing to do" not in capsys.readouterr().err
    readable = [path for path in read_images(tmp_path / "a-2-of-2.csv") if "damaged" not in path]
    assert len(list((tmp_path / "sorted").rglob("*.png"))) == len(readable) > 0


def test_two_runs_of_one_shard(trees, album, tmp_path, capsys):
    fcntl = pytest.importorskip("fcntl")
    with (tmp_path / ".a-1-of-2.csv.lock").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert predict(trees, album, "--out", tmp_path / "a.csv", "--shard", "1/2") == 2
        assert "is being written by another run" in error_of(capsys)
    assert predict(trees, album, "--out", tmp_path / "a.csv", "--shard", "1/2") == 0


@pytest.mark.parametrize("shard", [[], ["--shard", "1/2"]])
@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_answers_replace_answers_and_nothing_else(trees, album, tmp_path, capsys, ending, shard):
    out = tmp_path / f"a{ending}"
    run = (trees, album / "00.png", album / "02.png", "--out", out, *shard)
    written = tmp_path / f"a-1-of-2{ending}" if shard else out
    written.write_bytes(b"image,price\nrose.jpg,3\n")
    before = sorted(tmp_path.rglob("*"))
    assert predict(*run) == 2
    assert "exists already, and is not of the kind that is written here" in error_of(capsys)
    assert written.read_bytes() == b"image,price\nrose.jpg,3\n"
    assert sorted(tmp_path.rglob("*")) == before
    assert predict(*run, "--overwrite") == 0
    assert len(read_images(written)) == (1 if shard else 2)
    assert predict(*run) == 0


def test_answers_do_not_replace_what_is_read(trees, album, tmp_path, capsys):
    image = tmp_path / "photo.csv"
    image.write_bytes((album / "00.png").read_bytes())
    assert predict(trees, image, "--out", image) == 2
    assert "is what is read from" in error_of(capsys)
    assert image.read_bytes() == (album / "00.png").read_bytes()


def test_answers_do_not_replace_the_list_on_standard_input(trees, album, tmp_path):
    listed = tmp_path / "list.csv"
    listed.write_text(f"{album / '00.png'}\n")
    command = [sys.executable, "-m", "implanting", "predict", str(trees), "-", "--out", str(listed)]
    with listed.open() as stdin:
        done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is what is read from" in done.stderr
    assert listed.read_text() == f"{album / '00.png'}\n"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--shard", "3/2", "--out", "a.csv"], "--shard is 3/2; it must be i/n"),
        (["--shard", "1/2"], "--shard needs a file to write to"),
        (["--out", "a.txt"], "must end in .jsonl, .csv, .parquet"),
        (["--out", "a.csv", "--csv"], "--out sets the format"),
        (["--csv", "--json"], "exclude each other"),
        (["--min-probability", "0.5"], "--sort-into"),
        (["--sort-into", "album/sorted"], "choose a folder outside"),
    ],
)
def test_flags_that_do_not_fit(trees, album, capsys, monkeypatch, flags, said):
    monkeypatch.chdir(album.parent)
    assert predict(trees, "album", *flags) == 2
    assert said in error_of(capsys)
    assert not list(album.parent.glob("*.csv"))
    assert not (album / "sorted").exists()


def test_images_are_sorted_into_folders(trees, album, tmp_path, capsys):
    Image.fromarray(noise(32, 32, 3, seed=5).numpy()).save(album / "strange.png")
    sorted_into = tmp_path / "sorted"
    assert predict(trees, album, "--sort-into", sorted_into, "--min-probability", "0.6", "--json") == 0
    results = json.loads(capsys.readouterr().out)["results"]
    placed = {path.name: path.parent for path in sorted_into.rglob("*.png")}
    assert len(placed) == len(results) == 13
    for row in results:
        known = row["class"] != "none of these"
        doubtful = known and row["likeliest_probability"] < 0.6
        folder = sorted_into / "doubtful" if doubtful else sorted_into
        assert placed[Path(row["image"]).name] == folder / row["class"]
    assert len(list(album.rglob("*.png"))) == 14


def test_a_fault_of_sorting_is_not_laid_on_the_answers(trees, album, tmp_path, capsys):
    (tmp_path / "sorted").mkdir()
    for label in ImageClassifier.load(trees).classes_.tolist():
        (tmp_path / "sorted" / label).write_bytes(b"a file")
    assert predict(trees, album, "--sort-into", tmp_path / "sorted", "--out", tmp_path / "answers.csv") == 2
    error = error_of(capsys)
    assert f"--sort-into {tmp_path / 'sorted'}: image " in error
    assert "answers.csv" not in error
    assert not (tmp_path / "answers.csv").exists()
