import subprocess
import sys

import pytest

ENDING = """
import atexit, os
os.environ.update({environment})
from implanting.cli import end
atexit.register(print, "taken down")
print("printed", end="")
end(3)
"""


@pytest.mark.parametrize(
    ("environment", "printed"),
    [({}, "printedtaken down\n"), ({"TORCHELASTIC_RUN_ID": "1"}, "printed"), ({"IMPLANTING_LAUNCHER": "1"}, "printed")],
)
def test_a_worker_ends_without_taking_python_down(environment, printed):
    finished = subprocess.run([sys.executable, "-c", ENDING.format(environment=environment)], capture_output=True)
    assert finished.returncode == 3
    assert finished.stdout.decode() == printed
