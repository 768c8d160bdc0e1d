"""Free memory: the least of what the machine, a container and `ulimit -v` leave."""

import pytest

from implanting.runtime import free_memory, machine

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
