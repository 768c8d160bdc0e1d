"""Run by `test_ray.py` in a process of its own, whose warnings and children are Ray's: two actors, one of them killed.

Prints one JSON document: the rows, the process that was killed, and the rows of a data set of bytes. Then it runs the
program of the how-to.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (Ray spells it so) else actors yield to all other work

import ray
import ray.data

from implanting import ray as adapter


def main(trees: str, album: str, program: str) -> None:
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    adapter.IMAGES_PER_BLOCK = 8
    rows, killed = [], None
    for batch in adapter.classify(album, trees, actors=2).iter_batches(
        batch_size=8, batch_format="pyarrow", prefetch_batches=0
    ):
        rows += batch.to_pylist()
        if killed is None:
            killed = actors_of(os.getpid())[0]
            os.kill(killed, signal.SIGKILL)
    read = ray.data.read_binary_files([f"{album}/000.png", f"{album}/bad.png"], include_paths=True)
    from_bytes = adapter.classify(read, trees, actors=1).take_all()
    sys.stdout.write(json.dumps({"rows": rows, "killed": killed, "bytes": from_bytes}) + "\n")
    exec(program, {})
    ray.shutdown()


def actors_of(driver: int, seconds: float = 60) -> list[int]:
    """The processes in which actors of this driver run."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        parents, names = {}, {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                names[int(folder.name)] = (folder / "cmdline").read_bytes()
            except OSError:
                continue
        if found := [pid for pid, name in names.items() if b"MapWorker" in name and driver in ancestors(pid, parents)]:
            return found
        time.sleep(0.05)
    raise AssertionError("no actor was seen")


def ancestors(pid: int, parents: dict[int, int]) -> list[int]:
    chain = []
    while pid in parents:
        pid = parents[pid]
        chain.append(pid)
    return chain


if __name__ == "__main__":
    main(*sys.argv[1:])
