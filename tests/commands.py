"""Running commands as a user would, on a small data set."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}


def write_fc100(folder: Path, classes: int = 5, images: int = 24, trained: int | None = None, size: int = 32) -> Path:
    """FC100-like pickles: every class is a colour with noise; training and validation classes differ.

    `trained` are the images of a training class, where they are to be fewer.
    """
    generator = np.random.default_rng(0)
    for split, first, each in (("train", 0, trained or images), ("val", classes, images)):
        labels = np.repeat(np.arange(first, first + classes), each)
        colours = generator.integers(0, 256, (first + classes, 3))[labels]
        noise = generator.normal(0, 40, (len(labels), size, size, 3))
        data = (colours[:, None, None] + noise).clip(0, 255).astype(np.uint8)
        (folder / f"FC100_{split}.pickle").write_bytes(pickle.dumps({"data": data, "labels": labels.tolist()}))
    return folder


def pretrain_command(data: Path, out: Path) -> list[str]:
    """A small and quick run of stage 1."""
    settings = ["--width", "4", "--batch-size", "16", "--validation-tasks", "10"]
    return [sys.executable, "-m", "implanting", "pretrain", "--data", str(data), "--out", str(out), *settings]


def reproduce_command(data: Path, out: Path) -> list[str]:
    """A small and quick table: two base networks, and implants where there are two shots or more."""
    recipe = ["--recipe", "cpu", "--width", "4", "--batch-size", "16", "--validation-tasks", "0"]
    tasks = ["--split", "val", "--queries", "6", "--tasks", "13", "--json"]
    command = [sys.executable, "-m", "implanting", "reproduce", "table5", "--data", str(data), "--out", str(out)]
    return [*command, *recipe, *tasks]


def implanting(*command: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command that must end with this status, and give what it printed."""
    finished = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=300)
    assert finished.returncode == status, finished.stderr
    assert status != 2 or "Traceback" not in finished.stderr
    return finished


def same_weights(one: Path, other: Path) -> bool:
    """Whether two checkpoints hold bitwise the same tensors."""
    first, second = load_file(one), load_file(other)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
