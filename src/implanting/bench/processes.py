"""One process of two threads compared with two processes of one thread, both started as a user would."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from implanting.bench.memory import write_pickle

LAYOUTS = {"1 process of 2 threads": (1, 2), "2 processes of 1 thread": (2, 1)}


def _speed(processes: int, threads: int, data: Path, width: int, steps: int) -> float:
    launcher = (
        ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)] if processes > 1 else []
    )
    command = [sys.executable, *launcher, "-m", "implanting", "pretrain", "--data", str(data), "--json", "--overwrite"]
    command += ["--out", str(data / "base.safetensors"), "--width", str(width), "--iterations", str(steps)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    finished = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)  # noqa: S603 (our own command)
    return float(json.loads(finished.stdout.splitlines()[-1])["training"]["images_per_second"])


def compare(width: int, steps: int, rounds: int) -> dict[str, float]:
    """The best speed of each layout, in interleaved turns."""
    with tempfile.TemporaryDirectory() as temporary:
        data = Path(temporary) / "data"
        write_pickle(data, 4_096)
        turns = [{name: _speed(*layout, data, width, steps) for name, layout in LAYOUTS.items()} for _ in range(rounds)]
    return {name: max(turn[name] for turn in turns) for name in LAYOUTS}
