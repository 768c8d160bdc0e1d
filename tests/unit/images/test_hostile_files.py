"""Files made to hurt: that start programs, wait for ever, claim infinite numbers or more memory than there is."""

import os
import socket
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from implanting.errors import ImageError
from implanting.images import decode, decode_all, decode_batches, stored_size
from implanting.images import decoding as subject

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nnewpath\n%%EOF\n"
ORIENTATION = 0x112


@pytest.fixture
def ghostscript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name in the path, which leaves a file where it was run."""
    program, ran = tmp_path / "bin" / "gs", tmp_path / "ran"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return ran


def test_postscript_starts_no_program(tmp_path, ghostscript):
    (tmp_path / "x.jpg").write_bytes(POSTSCRIPT)
    for source in (tmp_path / "x.jpg", POSTSCRIPT):
        with pytest.raises(ImageError, match="none of the formats"):
            decode(source)
    with Image.open(tmp_path / "x.jpg") as opened:
        for look in (decode, stored_size):
            with pytest.raises(ImageError, match="of the format EPS"):
                look(opened)
    assert not ghostscript.exists()


def test_what_is_no_file_is_named_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket.jpg"))
        (tmp_path / "zeros.jpg").symlink_to("/dev/zero")
        (tmp_path / "loop.jpg").symlink_to(tmp_path / "loop.jpg")
        for name, said in (("pipe", "a pipe"), ("socket", "a socket"), ("zeros", "a device"), ("loop", "symbolic")):
            with pytest.raises(ImageError, match=rf"{name}\.jpg cannot be opened .*{said}"):
                decode(tmp_path / f"{name}.jpg")


def exif_orientation(path: Path, kind: int, value: bytes) -> None:
    """A JPEG whose orientation is noted as a number of some kind."""
    inline = value if len(value) == 4 else (26).to_bytes(4, "big")
    entry = ORIENTATION.to_bytes(2, "big") + kind.to_bytes(2, "big") + (1).to_bytes(4, "big") + inline
    tiff = b"MM\0*" + (8).to_bytes(4, "big") + (1).to_bytes(2, "big") + entry + bytes(4) + value
    Image.new("RGB", (4, 2), "red").save(path, exif=b"Exif\0\0" + tiff)


@pytest.mark.parametrize(
    ("kind", "value"),
    [(12, b"\x7f\xf0" + bytes(6)), (12, b"\x7f\xf8" + bytes(6)), (5, bytes(3) + b"\1" + bytes(4)), (2, b"abc\0")],
    ids=["infinite", "not a number", "one by zero", "text"],
)
def test_an_orientation_that_is_none_of_the_eight_says_nothing(tmp_path, kind, value):
    exif_orientation(tmp_path / "a.jpg", kind, value)
    assert decode(tmp_path / "a.jpg").size == (4, 2)
    assert stored_size(tmp_path / "a.jpg") == (2, 4)


def test_extreme_floating_point_keeps_its_order(tmp_path):
    Image.fromarray(np.array([[-3e38, 0, 3e38]], np.float32)).save(tmp_path / "a.tif")
    assert np.asarray(decode(tmp_path / "a.tif"))[0, :, 0].tolist() == [0, 128, 255]


def test_turned_tiffs_in_a_data_set(tmp_path):
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(tmp_path / "a.tif", exif=exif)
    assert stored_size(tmp_path / "a.tif") == (30, 20)
    images, _ = decode_all([tmp_path / "a.tif"] * 2)
    assert images.shape == (2, 30, 20, 3)


def test_an_image_that_takes_more_memory_than_is_free_is_refused(tmp_path, monkeypatch):
    Image.new("1", (1, 100)).save(tmp_path / "tall.png")
    monkeypatch.setattr(subject, "LARGE", 99)
    assert decode(tmp_path / "tall.png").size == (1, 100)
    monkeypatch.setattr(subject, "free_memory", lambda: 100 * (20 + 40) - 1)
    with pytest.raises(ImageError, match=r"tall\.png has 1 x 100 pixels, .*scale it down"):
        decode(tmp_path / "tall.png")
    monkeypatch.setattr(subject, "free_memory", lambda: None)

    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Image.Image, "convert", exhausted)
    with pytest.raises(ImageError, match=r"tall\.png needs more memory"):
        decode(tmp_path / "tall.png")


def test_every_kind_can_be_skipped(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "x.jpg").write_bytes(POSTSCRIPT)
    (tmp_path / "folder.jpg").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "good.png")
    sources = [tmp_path / name for name in ("pipe.jpg", "x.jpg", "folder.jpg", "none.jpg", "good.png", "a\0b.jpg")]
    (batch,) = decode_batches(sources, 8, skip_bad=True)
    assert batch.indices.tolist() == [4]
    assert len(batch.failures) == 5
