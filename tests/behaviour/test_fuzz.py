"""A bounded run of `tests/fuzz.py`: the same cases every time. `make fuzz` runs it for as long as one likes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from commands import ENVIRONMENT

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="bounds its memory by what Linux says of it")
def test_hostile_input_breaks_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "tests/fuzz.py", "--cases", "40", "--seconds", "1000", "--keep", str(tmp_path / "kept")]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, cwd=ROOT, timeout=1000)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert re.search(r"^520 cases in \d+ s, 0 failed", done.stdout, re.MULTILINE)
