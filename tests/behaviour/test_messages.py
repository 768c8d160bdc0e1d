"""Errors of the library name settings, and the command line shows them as its flags."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from implanting.cli.main import with_flags

SOURCE = Path(__file__).parents[2] / "src" / "implanting"
SETTING = re.compile(r"`([a-z][a-z0-9_]*)`")

VERBS = ["fit", "predict", "explain", "pretrain", "join", "evaluate", "reproduce", "serve", "bench inference"]
"""Together they have a flag for every setting that the library's errors name."""


def raised(file: Path) -> str:
    """The words of all that a file raises."""
    raising = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Raise)]
    words = [part.value for node in raising for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return "\n".join(word for word in words if isinstance(word, str))


LIBRARY = [file for file in sorted(SOURCE.rglob("*.py")) if "cli" not in file.relative_to(SOURCE).parts]


@pytest.mark.parametrize("file", LIBRARY, ids=lambda file: str(file.relative_to(SOURCE)))
def test_the_library_speaks_of_no_flag(file: Path) -> None:
    assert not re.findall(r"(?<!\w)--[a-z][a-z-]*", raised(file))


def test_every_setting_in_an_error_is_a_flag() -> None:
    named = {name for file in LIBRARY for name in SETTING.findall(raised(file))}
    assert {"image_size", "learning_rate", "shot", "out", "splits"} <= named
    helps = [
        subprocess.run(
            [sys.executable, "-m", "implanting", *verb.split(), "--help"], capture_output=True, text=True, check=True
        ).stdout
        for verb in VERBS
    ]
    flags = set(re.findall(r"--[a-z][a-z-]*", "\n".join(helps)))
    assert {with_flags(f"`{name}`") for name in named} - flags == set()


def test_settings_become_flags_and_commands_stay() -> None:
    message = "`image_size` is 0; lower `shot`, or make one with `implanting pretrain`"
    assert with_flags(message) == "--image-size is 0; lower --shot, or make one with `implanting pretrain`"
