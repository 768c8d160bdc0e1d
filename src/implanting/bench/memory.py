"""Peak memory of reading a data set, as a multiple of the tensor that comes out, and of evaluating with implants.

Each measurement runs in a process of its own. The memory of the interpreter and the libraries is measured by a process
that reads a few images, and subtracted before ratios are taken.
"""

import pickle
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from implanting.runtime import Progress, silent

MEASURE = """
import sys
from implanting.bench.memory import resident_peak
{work}
print(resident_peak(), size)
"""

READ = """
from implanting.datasets import read_dataset
size = read_dataset(sys.argv[1], "train").images.nbytes
"""

EVALUATE = """
from implanting.bench.implant_tasks import evaluate_some
size = evaluate_some(*(int(argument) for argument in sys.argv[1:]))
"""


def resident_peak() -> int:
    """Peak bytes of memory of this process; 0 on systems that do not report it (all but Linux)."""
    status = Path("/proc/self/status")  # not ru_maxrss, which starts at the parent's peak
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else 0


def peak_and_size(work: str, *arguments: object) -> tuple[int, int]:
    """Peak resident bytes of a process that does this work, and the bytes of its result."""
    command = [sys.executable, "-c", MEASURE.format(work=work), *(str(argument) for argument in arguments)]
    peak, size = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()  # noqa: S603 (our own command)
    return int(peak), int(size)


def implant_peaks(
    images: int, size: int, width: int, tasks: tuple[int, ...], progress: Progress = silent
) -> list[dict[str, int]]:
    """Peak bytes of evaluating with implants on half-precision activations, per number of tasks; on Linux only."""
    if not resident_peak():
        return []
    rows = []
    for number in progress(tasks, "peak memory", len(tasks)):
        peak, cache = peak_and_size(EVALUATE, images, size, width, number)
        rows.append({"images": images, "size": size, "tasks": number, "cache": cache, "peak": peak})
    return rows


def _write_pickle(folder: Path, images: int) -> None:
    """Write a data set in the form of FC100's pickles."""
    folder.mkdir()
    data = np.random.default_rng(0).integers(0, 256, (images, 32, 32, 3), dtype=np.uint8)
    with (folder / "FC100_train.pickle").open("wb") as file:
        pickle.dump({"data": data, "labels": [number % 2 for number in range(images)]}, file)


def _write_folders(folder: Path, images: int) -> None:
    for name in ("one", "two"):
        (folder / "train" / name).mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (84, 84, 3), dtype=np.uint8)
    for number in range(images):
        Image.fromarray(pixels).save(folder / "train" / ("one", "two")[number % 2] / f"{number}.jpg")


def reading_ratios(images: int) -> dict[str, float]:
    """Peak memory over tensor size: images of 32 px in a pickle, a ninth as many of 84 px in folders; on Linux only."""
    ratios: dict[str, float] = {}
    if not resident_peak():
        return ratios
    with tempfile.TemporaryDirectory() as temporary:
        for name, write, count in (("pickle", _write_pickle, images), ("folders", _write_folders, images // 9)):
            write(Path(temporary) / f"{name}-few", 4)
            write(Path(temporary) / name, count)
            idle, _ = peak_and_size(READ, Path(temporary) / f"{name}-few")
            peak, size = peak_and_size(READ, Path(temporary) / name)
            ratios[name] = (peak - idle) / size
    return ratios
