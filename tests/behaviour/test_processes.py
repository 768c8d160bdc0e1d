"""Processes that a command starts run nothing of the current folder, end with their launcher, and leave nothing."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import ENVIRONMENT, write_fc100
from implanting.cli import main

TASKS = ["--split", "val", "--way", "3", "--shot", "2", "--queries", "4", "--tasks", "20", "--workers", "2"]


def evaluate(base: Path, data: Path, *flags: str) -> list[str]:
    command = [sys.executable, "-m", "implanting", "evaluate", "--base", str(base), "--data", str(data)]
    return [*command, *TASKS, *flags]


def children_of(parent: int) -> list[int]:
    """Numbers of the processes that a process has started."""
    return [int(number) for number in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def alive(number: int) -> bool:
    status = Path(f"/proc/{number}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until(true, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.fixture
def around(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder of somebody's files, among them modules by the names of Python's, and an empty temporary folder."""
    folder, temporary = tmp_path / "photos", tmp_path / "tmp"
    temporary.mkdir()
    folder.mkdir()
    for name in ("grp", "pwd", "torch", "numpy", "secrets", "bz2", "lzma", "queue", "pickletools"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').write(__name__)\n")
    return folder, {**ENVIRONMENT, "TMPDIR": str(temporary)}


def test_workers_run_nothing_of_the_current_folder_and_leave_nothing(tmp_path, base_file, around):
    folder, environment = around
    command = evaluate(base_file, write_fc100(tmp_path, classes=3, images=8))
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()
    assert list(Path(environment["TMPDIR"]).iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks Linux for the processes")
def test_workers_end_with_their_launcher_however_it_ends(tmp_path, base_file, around):
    _, environment = around
    endless = ["--implants", "--implant-epochs", "1000000"]
    command = evaluate(base_file, write_fc100(tmp_path, classes=3, images=8), *endless)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as launcher:
        wait_until(lambda: len(children_of(launcher.pid)) >= 2)
        workers = children_of(launcher.pid)
        wait_until(lambda: all(len(list(Path(f"/proc/{worker}/task").iterdir())) > 1 for worker in workers))
        launcher.send_signal(signal.SIGKILL)
        launcher.wait()
        wait_until(lambda: not any(map(alive, workers)))
    wait_until(lambda: list(Path(environment["TMPDIR"]).iterdir()) == [])


@pytest.mark.parametrize(
    "flags",
    [
        ["--workers", "1000"],
        ["--threads", "1000"],
        ["--tasks", "900000000"],
        ["--tasks", "1" * 30],
        ["--implant-epochs", "1" * 30, "--implants"],
    ],
)
def test_more_than_the_machine_has_is_refused_before_work_starts(tmp_path, base_file, flags, capsys):
    data = write_fc100(tmp_path, classes=3, images=8)
    fixed = ["--split", "val", "--way", "3", "--shot", "2", "--queries", "4"]
    assert main(["evaluate", "--base", str(base_file), "--data", str(data), *fixed, *flags]) == 2
    assert flags[0] in capsys.readouterr().err


def test_more_training_than_can_be_is_refused_before_anything_is_written(tmp_path, capsys):
    data, out = write_fc100(tmp_path, classes=3, images=8), tmp_path / "base.safetensors"
    assert main(["pretrain", "--data", str(data), "--out", str(out), "--iterations", "1" * 30]) == 2
    assert "--iterations" in capsys.readouterr().err
    assert not list(tmp_path.glob("base*"))


def test_two_evaluations_fill_one_cache_and_give_the_same_figures(tmp_path, base_file):
    data = write_fc100(tmp_path, classes=3, images=8)
    flags = ["--implants", "--implant-epochs", "2", "--json", "--workers", "1"]
    command = evaluate(base_file, data, *flags, "--cache", str(tmp_path / "cache"))
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) for _ in range(2)]
    printed = [each.communicate(timeout=300)[0] for each in both]
    assert [each.returncode for each in both] == [0, 0]
    first, second = (json.loads(text.splitlines()[-1])["results"] for text in printed)
    assert first == second
    assert len(first) == 2


INTERRUPTED = """
import importlib.abc, os, runpy, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background starts without it

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["implanting", "evaluate", "--help"]
runpy.run_module("implanting", run_name="__main__", alter_sys=True)
"""


def test_nothing_is_loaded_before_ctrl_c_is_one_line():
    """The package is imported before `__main__` can say what Ctrl-C does, so it imports nothing else."""
    script = "import sys; before = set(sys.modules); import implanting; print(sorted(set(sys.modules) - before))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=ENVIRONMENT, timeout=100)
    assert ended.stdout == "['implanting', 'implanting.version']\n"


@pytest.mark.parametrize("module", ["implanting.cli.main", "tyro", "numpy", "torch", "torch._C", "PIL.Image"])
def test_ctrl_c_while_a_module_is_loaded_is_one_line(module):
    command = [sys.executable, "-c", INTERRUPTED.format(module=module)]
    ended = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=100)
    assert (ended.returncode, ended.stderr) == (130, "implanting: stopped\n")


def test_a_command_that_works_leaves_nothing(tmp_path, base_file, around):
    _, environment = around
    data = write_fc100(tmp_path, classes=3, images=8)
    command = [*evaluate(base_file, data)[:-2], "--implants", "--implant-epochs", "2"]
    assert subprocess.run(command, capture_output=True, env=environment, timeout=300).returncode == 0
    assert list(Path(environment["TMPDIR"]).iterdir()) == []
