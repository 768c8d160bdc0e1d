import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import commands
from implanting.base import load_base
from implanting.datasets import ImageSet
from implanting.errors import DataError
from implanting.implants import compute_activations, embed_together
from implanting.runtime import alone_in, kept_arrays
from implanting.runtime.arrays import size_in_words
from toys import noise

PROGRAM = """
import sys
from pathlib import Path
import torch
from implanting.implants import activations
from implanting.base import BaseNetwork
from implanting.base import load_base
from implanting.datasets import ImageSet
from implanting.runtime import group, process_group
from implanting.errors import DataError

base, pixels, folder = load_base(Path(sys.argv[1])), torch.load(sys.argv[2]), Path(sys.argv[3])
images = ImageSet(pixels, torch.arange(len(pixels)) % 2, ("one", "two"), "toy", "none")
encoded, embed, compute = {"phi": 0, "maps": 0}, activations.embed_batch, BaseNetwork.activations

def counted_embed(network, normalisation, given):
    encoded["phi"] += len(given)
    return embed(network, normalisation, given)

def counted_compute(self, given):
    encoded["maps"] += len(given)
    return compute(self, given)

activations.embed_batch, BaseNetwork.activations = counted_embed, counted_compute
with process_group(torch.device("cpu")):
    phi = activations.embed_together(base, images.images)
    kept = [activations.compute_activations(base, images, cache=cache) for cache in (None, folder / "cache")]
    found = [phi, *kept[0].base_maps, kept[0].phi, *kept[1].base_maps, kept[1].phi]
    try:
        activations.compute_activations(base, images, cache=Path(sys.argv[2]))
    except DataError as error:
        refused = str(error)
    torch.save((found, encoded, refused, Path("/proc/self/maps").read_text()), folder / f"rank{group()[0]}")
"""

IMAGES = ImageSet(noise(200, 32, 32, 3), torch.arange(200) % 2, ("one", "two"), "toy", "none")
PROCESSES = 3


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what is mapped is read from /proc")
def test_processes_of_one_machine_compute_a_part_each_and_have_one_copy(base_file, tmp_path, monkeypatch):
    program, pixels, temporary = tmp_path / "program.py", tmp_path / "pixels", tmp_path / "temporary"
    program.write_text(PROGRAM)
    torch.save(IMAGES.images, pixels)
    temporary.mkdir()
    monkeypatch.setitem(commands.ENVIRONMENT, "TMPDIR", str(temporary))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(PROCESSES)]
    commands.implanting(*launcher, str(program), str(base_file), str(pixels), str(tmp_path))

    base = load_base(base_file)
    alone = compute_activations(base, IMAGES)
    expected = [embed_together(base, IMAGES.images), *(2 * [*alone.base_maps, alone.phi])]
    seen = [torch.load(tmp_path / f"rank{rank}") for rank in range(PROCESSES)]
    for found, encoded, refused, mapped in seen:
        assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
        assert 0 < encoded["phi"] < 100
        assert 0 < encoded["maps"] < 200
        assert "pixels is a file; a folder is needed" in refused
        assert mapped.count("map-0.npy") == 3  # phi, and twice the first of the maps
    assert sum(encoded["phi"] for _, encoded, *_ in seen) == len(IMAGES)
    for_the_shapes = 2 * PROCESSES  # one image, each time that a folder is usable
    assert sum(encoded["maps"] for _, encoded, *_ in seen) == 2 * len(IMAGES) + for_the_shapes
    assert not [path for path in temporary.iterdir() if path.name.startswith("implanting-")]


@pytest.mark.parametrize("fault", [KeyboardInterrupt, RuntimeError])
def test_files_that_were_not_filled_are_taken_back(fault, tmp_path):
    there = []

    def fill_in_vain(arrays):
        there.extend(tmp_path.iterdir())
        raise fault

    with pytest.raises(fault), kept_arrays(tmp_path, [(3, 4), (5,)], np.dtype(np.float32), "") as arrays:
        fill_in_vain(arrays)
    assert len(there) == 2
    assert list(tmp_path.iterdir()) == []


def test_files_that_were_filled_are_kept(tmp_path):
    with kept_arrays(tmp_path / "new" / "folder", [(3, 4)], np.dtype(np.float16), "") as (array,):
        array[:] = 7
    assert np.load(tmp_path / "new" / "folder" / "map-0.npy").tolist() == [[7] * 4] * 3


def test_a_full_disk_is_told_with_what_is_needed(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    wanted = r"no room for 3\.8 MiB \(No space left on device\): free space, or look elsewhere"
    with (
        pytest.raises(DataError, match=wanted),
        kept_arrays(tmp_path, [(1000, 1000)], np.dtype(np.float32), "look elsewhere"),
    ):
        pytest.fail("there is nothing to fill")
    assert list(tmp_path.iterdir()) == []


def test_a_file_or_what_stands_below_one_is_no_folder(tmp_path):
    file = tmp_path / "file"
    file.touch()
    for folder, wanted in ((file, "is a file; a folder is needed"), (file / "below", r"cannot be made \(Not a dir")):
        with pytest.raises(DataError, match=wanted), kept_arrays(folder, [(1,)], np.dtype(np.float32), ""):
            pytest.fail("there is nothing to fill")


@pytest.mark.parametrize(
    ("size", "words"), [(40_000, "39.1 KiB"), (2**20 * 3, "3.0 MiB"), (2**30, "1.0 GiB"), (2**30 * 7 // 2, "3.5 GiB")]
)
def test_sizes_in_words(size, words):
    assert size_in_words(size) == words


def test_one_process_at_a_time_fills_a_folder(tmp_path):
    """Another waits until the first has ended, and sees what it wrote."""
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from implanting.runtime import alone_in\n"
        "folder = Path(sys.argv[1])\n"
        "with alone_in(folder):\n"
        "    seen = (folder / 'done').exists()\n"
        "    time.sleep(0.5)\n"
        "    (folder / 'done').write_text('')\n"
        "print(seen)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "new")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sorted(one.communicate(timeout=100)[0] for one in both) == ["False\n", "True\n"]


def test_arrays_of_others_are_not_replaced(tmp_path):
    (tmp_path / "map-0.npy").write_bytes(b"somebody's")
    with pytest.raises(DataError, match="holds arrays that were not written here"), alone_in(tmp_path):
        pass
    (tmp_path / "map-0.npy").rename(tmp_path / "treasure")
    with alone_in(tmp_path):
        (tmp_path / "map-0.npy").symlink_to(tmp_path / "treasure")
        with kept_arrays(tmp_path, [(2, 3)], np.dtype(np.float32), "") as (array,):
            array[:] = 1
    assert (tmp_path / "treasure").read_bytes() == b"somebody's"
    assert np.load(tmp_path / "map-0.npy").tolist() == [[1.0] * 3] * 2
