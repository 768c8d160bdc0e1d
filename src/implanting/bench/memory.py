"""Peak memory of reading a data set, as a multiple of the tensor that comes out.

Each reading runs in a process of its own; what the interpreter and the libraries take is measured by one that reads a
set of two images, and subtracted.
"""

import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

READ = """
import re, sys
from pathlib import Path
from implanting.datasets import read_dataset
tensor = read_dataset(sys.argv[1], "train").images
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())  # ru_maxrss starts at the parent's peak
print(int(peak[1]) * 1024, tensor.nbytes)
"""


def peak_and_size(path: Path) -> tuple[int, int]:
    """Peak resident bytes of a process that reads a set, and the bytes of its images."""
    output = subprocess.run([sys.executable, "-c", READ, str(path)], check=True, capture_output=True, text=True).stdout  # noqa: S603 (our own command)
    peak, size = output.split()
    return int(peak), int(size)


def write_pickle(folder: Path, images: int) -> None:
    """A set in the form of FC100's pickles."""
    folder.mkdir()
    data = np.random.default_rng(0).integers(0, 256, (images, 32, 32, 3), dtype=np.uint8)
    with (folder / "FC100_train.pickle").open("wb") as file:
        pickle.dump({"data": data, "labels": [number % 2 for number in range(images)]}, file)


def write_folders(folder: Path, images: int) -> None:
    """A set as class folders of JPEG files of 84 px."""
    for name in ("one", "two"):
        (folder / "train" / name).mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (84, 84, 3), dtype=np.uint8)
    for number in range(images):
        Image.fromarray(pixels).save(folder / "train" / ("one", "two")[number % 2] / f"{number}.jpg")


def reading_ratios() -> dict[str, float]:
    """Peak memory over tensor size, for a pickle of 221 MB and for folders of 169 MB; measured on Linux only."""
    ratios: dict[str, float] = {}
    if not Path("/proc/self/status").exists():
        return ratios
    with tempfile.TemporaryDirectory() as temporary:
        for name, write, images in (("pickle", write_pickle, 72_000), ("folders", write_folders, 8_000)):
            write(Path(temporary) / f"{name}-few", 4)
            write(Path(temporary) / name, images)
            idle, _ = peak_and_size(Path(temporary) / f"{name}-few")
            peak, size = peak_and_size(Path(temporary) / name)
            ratios[name] = (peak - idle) / size
    return ratios
