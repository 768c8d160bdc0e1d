"""Running out of memory is one line and exit status 2, whoever asked for it, in a process that is short of it."""

import csv
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from PIL import Image

LITTLE = """
import resource, sys
import numpy, torch
from implanting.cli import main
from implanting.cli.verbs import fit, info

torch.ones(64, 64) @ torch.ones(64, 64)  # its threads and buffers are there
pages = int(open("/proc/self/statm").read().split()[0])
held = pages * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + int(sys.argv[1]), resource.RLIM_INFINITY))

def by_numpy(_):
    return int(numpy.ones(2**36).sum())

def by_torch(_):
    return int(torch.ones(2**36).sum())

def by_python(_):
    return len(bytes(2**40))

if sys.argv[2] == "each":
    statuses = []
    for info.main in (by_numpy, by_torch, by_python):
        statuses.append(main(["info"]))
    sys.exit(f"statuses {statuses}")
sys.exit(main(sys.argv[2:]))
"""

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits the address space as Linux does")


def run_with(spare: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A command in a process that may take so many bytes more than it holds."""
    command = [sys.executable, "-c", LITTLE, str(spare), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


def test_an_allocation_that_fails_is_one_line():
    """A MemoryError of numpy, a RuntimeError of PyTorch and a MemoryError of Python."""
    lines = run_with(2**30, "each").stderr.splitlines()
    for line, size in zip(lines, (" for 512 GiB more", " for 256.0 GiB more", ""), strict=False):
        assert line.startswith(f"implanting: there is not enough memory{size}: close other programs, or ask for less")
    assert lines[3:] == ["statuses [2, 2, 2]"]


def test_a_command_on_too_little_memory_ends_in_one_line_and_leaves_nothing(base_file, tmp_path):
    for number in range(8):
        folder = tmp_path / "photos" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 32), (number * 30, 0, 0)).save(folder / f"{number}.png")
    out = tmp_path / "c.safetensors"
    done = run_with(300 * 2**20, "fit", tmp_path / "photos", "--out", out, "--base", base_file, "--image-size", 2000)
    assert done.returncode == 2, done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith("implanting: there is not enough memory"), done.stderr
    assert "Traceback" not in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["photos"]


def test_an_image_too_tall_for_the_memory_is_named_and_can_be_skipped(base_file, tmp_path):
    """One column of pixels: of each row, Pillow keeps an address that is larger than its pixel."""
    for number in range(6):
        folder = tmp_path / "photos" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 32), (number * 30, 0, 0)).save(folder / f"{number}.png")
    _write_column(tmp_path / "photos" / "a" / "tall.png", 41_000_000)
    out = tmp_path / "c.safetensors"
    fit = ("fit", tmp_path / "photos", "--out", out, "--base", base_file, "--implants", "False")
    done = run_with(2**30, *fit)
    assert done.returncode == 2, done.stderr
    assert re.search(r"a/tall\.png has 1 x 41000000 pixels, which take up to 2\.3 GiB of memory", done.stderr)
    assert not out.exists()
    done = run_with(2**30, *fit, "--skip-bad")
    assert done.returncode == 0, done.stderr
    assert "tall.png" in done.stderr
    done = run_with(2**30, "predict", out, tmp_path / "photos" / "a", "--csv")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [Path(row["image"]).name for row in rows if row["error"]] == ["tall.png"]
    assert len(rows) == 4


def _write_column(path: Path, height: int) -> None:
    """A grey PNG, one pixel wide; Pillow would take its memory to write it."""
    packed = zlib.compress(bytes(2 * height), 1)
    header = struct.pack(">IIBBBBB", 1, height, 8, 0, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", packed), (b"IEND", b"")
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
