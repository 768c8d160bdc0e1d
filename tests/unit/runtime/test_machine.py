"""Free memory and cores: the least of what the machine, a container and the process's own limits leave."""

import os

import pytest

from implanting.runtime import cores, free_memory, machine

pytestmark = pytest.mark.skipif(not machine.OWN.exists(), reason="reads what Linux says of its memory")


def test_the_limit_of_the_process_counts(monkeypatch):
    resource = pytest.importorskip("resource")
    held = int(machine.OWN.read_text().split()[0]) * resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (held + 2**28, resource.RLIM_INFINITY))
    assert 2**27 < free_memory() <= 2**28
    monkeypatch.setattr(resource, "getrlimit", lambda _: (held // 2, resource.RLIM_INFINITY))
    assert free_memory() == 0


def test_the_limit_of_a_container_counts(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "GROUP", tmp_path)
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("3000\n")
    assert free_memory() == 2000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory() > 2000


def test_cores_are_those_that_the_process_and_its_container_may_use(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "GROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 6})
    assert cores() == 3
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert cores() == 2
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert cores() == 3
