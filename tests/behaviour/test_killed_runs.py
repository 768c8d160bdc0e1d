"""A run that was killed or stopped goes on with --resume to bit-identical weights."""

import json
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from commands import ENVIRONMENT, implanting, pretrain_command, reproduce_command, same_weights, write_fc100
from implanting.base import load_base

LENGTH = ["--iterations", "60", "--save-every", "0.05"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fc100(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def uninterrupted(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "base.safetensors"
    implanting(*pretrain_command(data, out), *LENGTH)
    return out


def interrupt(command: list[str], out: Path, number: signal.Signals) -> int:
    """Start a run, send it a signal once its first checkpoint is there, and give its exit status."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stderr=said, env=ENVIRONMENT)
        while not out.exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        status = process.wait(timeout=60)
        said.seek(0)
        assert "Traceback" not in said.read()
    return status


def test_a_killed_run_ends_with_the_same_weights(data: Path, uninterrupted: Path, tmp_path: Path) -> None:
    out = tmp_path / "base.safetensors"
    command = [*pretrain_command(data, out), *LENGTH]
    assert interrupt(command, out, signal.SIGKILL) == -signal.SIGKILL
    assert not load_base(out).description.training.finished
    implanting(*command, "--resume")
    assert load_base(out).description.training.finished
    assert same_weights(out, uninterrupted)
    steps = [json.loads(line) for line in out.with_suffix(".jsonl").read_text().splitlines()]
    numbers = [record["step"] for record in steps if record["event"] == "step"]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 60


def test_ctrl_c_saves_and_says_how_to_go_on(data: Path, uninterrupted: Path, tmp_path: Path) -> None:
    out = tmp_path / "base.safetensors"
    command = [*pretrain_command(data, out), *LENGTH]
    assert interrupt(command, out, signal.SIGINT) == 130
    stopped_at = load_base(out).description.training.step
    assert 0 < stopped_at < 60
    implanting(*command, "--resume")
    assert same_weights(out, uninterrupted)


def test_resume_starts_afresh_where_nothing_was_saved(data: Path, uninterrupted: Path, tmp_path: Path) -> None:
    out = tmp_path / "base.safetensors"
    implanting(*pretrain_command(data, out), *LENGTH, "--resume")
    assert same_weights(out, uninterrupted)


def test_what_is_there_is_not_replaced_unasked(data: Path, uninterrupted: Path) -> None:
    before = uninterrupted.read_bytes()
    finished = implanting(*pretrain_command(data, uninterrupted), *LENGTH, status=2)
    assert "--resume" in finished.stderr
    assert uninterrupted.read_bytes() == before


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_table_that_was_stopped_goes_on_when_called_again(data: Path, tmp_path: Path, workers: str) -> None:
    length = ["--shot", "1", "--iterations", "20", "--save-every", "0", "--workers", workers]
    whole, stopped = ([*reproduce_command(data, tmp_path / name), *length] for name in ("whole", "stopped"))
    expected = json.loads(implanting(*whole).stdout.splitlines()[-1])["results"]
    gap = tmp_path / "stopped" / "resnet12-gap.safetensors"
    assert interrupt(stopped, gap, signal.SIGINT) == 130
    assert not load_base(gap).description.training.finished
    assert json.loads(implanting(*stopped).stdout.splitlines()[-1])["results"] == expected
