"""Flags and help from the configuration dataclasses."""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import tyro

from implanting.config import PretrainConfig
from implanting.errors import ConfigError
from implanting.recipes import RECIPES, RecipeName

Command = TypeVar("Command")


def parse(command: type[Command], verb: str, arguments: Sequence[str], default: Command | None = None) -> Command:
    """The command's dataclass, filled from the arguments; nested configurations lend their fields as flags.

    A wrong flag ends the process with status 2, `--help` with 0, as tyro does it.
    """
    flat = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
    given: dict[str, Any] = {} if default is None else {"default": default}
    return tyro.cli(command, prog=f"implanting {verb}", args=list(arguments), config=flat, **given)


def recipe_from(arguments: Sequence[str]) -> tuple[RecipeName, PretrainConfig]:
    """The recipe named by `--recipe`, whose values become the defaults of the other flags.

    `--epochs` and `--iterations` replace each other, so one given on the command line drops the recipe's other one.
    """
    parser = argparse.ArgumentParser("implanting pretrain", add_help=False, allow_abbrev=False)
    parser.add_argument("--recipe", default="cpu")
    parser.add_argument("--epochs", type=float)
    parser.add_argument("--iterations", type=int)
    given, _ = parser.parse_known_args(list(arguments))
    if given.recipe not in RECIPES:
        raise ConfigError(f"--recipe {given.recipe} is unknown; there are: {', '.join(RECIPES)}")
    config = RECIPES[given.recipe].config
    if given.epochs is not None or given.iterations is not None:
        config = dataclasses.replace(config, epochs=given.epochs, iterations=given.iterations)
    return given.recipe, config


def as_label(text: str, classes: np.ndarray) -> Any:
    """A label as a classifier has them: a number where its classes are numbers."""
    return int(text) if classes.dtype.kind in "iu" and text.lstrip("-").isdigit() else text
