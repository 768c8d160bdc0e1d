"""The Python of the how-tos, run as it stands."""

import re
import sys
from pathlib import Path

import pytest

from commands import implanting

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("page", "printed"), [("own-network.md", r"\['(oak|elm)' '(oak|elm)'\] \(1, 16, 16\)\n")])
def test_the_python_of_a_page_runs_as_it_stands(
    page: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert re.fullmatch(printed, implanting(sys.executable, "-c", program).stdout)
