"""Whether this machine can run a network."""

import dataclasses

import torch

from implanting.cli.verbs import trial as module
from implanting.cli.verbs.trial import Trial, free_memory, trial
from toys import toy_base


def test_a_network_that_runs():
    base = toy_base()
    found = trial(base)
    assert found.device == str(base.device)
    assert found.milliseconds > 0
    maps = found.needed - 2 * sum(tensor.nbytes for tensor in base.tensors.values())
    assert maps == 3 * 4 * 32 * 2 * 32 * 32  # the first map: 32 images, 2 channels, 32 px
    assert found.fits
    assert str(found).startswith("runs it: an image in ")
    assert found.document()["fits"]


def test_too_little_memory_is_told():
    small = Trial("2.13", "cpu", 1, 5.0, needed=2**31, free=2**30)
    assert str(small) == (
        "has too little memory: an image in 5 ms on cpu (1 thread), batches in about 2048 MB of 1.0 GB free; torch 2.13"
    )
    assert not small.document()["fits"]
    unknown = dataclasses.replace(small, free=None, threads=2)
    assert str(unknown).startswith("runs it: an image in 5 ms on cpu (2 threads), batches in about 2048 MB; torch")


def test_free_memory(tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:       7 kB\n")
    monkeypatch.setattr(module, "MEMORY", tmp_path / "meminfo")
    assert free_memory(torch.device("cpu")) == 7 * 1024
    monkeypatch.setattr(module, "MEMORY", tmp_path / "none")
    assert free_memory(torch.device("cpu")) is None
