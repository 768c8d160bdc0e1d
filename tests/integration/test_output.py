"""Commands whose output is full, closed, read in part or ASCII only, and arguments that no path can be."""

import subprocess
import sys
from pathlib import Path

import pytest

from commands import ENVIRONMENT
from implanting.base import save_base
from implanting.cli import main
from toys import toy_base

RECIPES = [sys.executable, "-m", "implanting", "info", "--recipes"]


def in_shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command's own words run by a shell as $0 to $n."""
    return subprocess.run(
        ["bash", "-c", command, *RECIPES], capture_output=True, text=True, env=ENVIRONMENT | environment, timeout=300
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_clear_line() -> None:
    finished = in_shell('"$0" "$@" > /dev/full')
    assert finished.returncode == 2
    assert finished.stderr == "implanting: cannot write: No space left on device; free some space or write elsewhere\n"


def test_nobody_reads_to_the_end() -> None:
    finished = in_shell('"$0" "$@" | true; exit ${PIPESTATUS[0]}')
    assert finished.returncode in (0, 141)  # 0 if all was written before the reader went away
    assert finished.stderr == ""


def test_a_closed_output_is_no_fault() -> None:
    finished = in_shell('"$0" "$@" >&-')
    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Its name has a letter that ASCII lacks."""
    made = toy_base()
    save_base(tmp_path / "b\u00e4se.safetensors", made.network, made.classifier, made.description)
    return tmp_path / "b\u00e4se.safetensors"


def test_info_in_ascii(base: Path) -> None:
    command = [sys.executable, "-m", "implanting", "info", base.name]
    environment = ENVIRONMENT | {"PYTHONIOENCODING": "ascii"}
    finished = subprocess.run(command, capture_output=True, env=environment, cwd=base.parent, timeout=300)
    assert (finished.returncode, finished.stderr) == (0, b"")
    assert b"b\\xe4se.safetensors" in finished.stdout
    assert b"33.33 " in finished.stdout
    assert b"runs it: an image in " in finished.stdout


@pytest.mark.parametrize(
    ("path", "said"), [("a\0b", "NUL byte"), ("a" * 5000, "File name too long"), ("new\nline", "new\\nline")]
)
def test_paths_that_cannot_be(path: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["info", path], ["pretrain", "--data", path, "--out", "base.safetensors"]):
        assert main(arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
        assert len(line) < 400
