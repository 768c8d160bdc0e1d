"""Flags and help from the configuration dataclasses."""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import tyro
from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructFieldSpec, StructTypeInfo

from implanting.cli.examples import EXAMPLES
from implanting.config import PretrainConfig
from implanting.console import print_text
from implanting.errors import ConfigError
from implanting.pretraining import RECIPES, RecipeName

Command = TypeVar("Command")

LAYOUT = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes, tyro.conf.DisallowNone)
"""Flags without the names of the configurations they stand in, and no `None` to be typed."""


def parse(command: type[Command], verb: str, arguments: Sequence[str], default: Command | None = None) -> Command:
    """The command's dataclass, filled from the arguments; nested configurations lend their fields as flags.

    A wrong flag ends the process with status 2, `--help` with 0 and the verb's examples.
    """
    given: dict[str, Any] = {} if default is None else {"default": default}
    try:
        return tyro.cli(
            command, prog=f"implanting {verb}", args=list(arguments), config=LAYOUT, registry=_readable_help(), **given
        )
    except SystemExit as ended:
        if not ended.code and verb in EXAMPLES:
            print_text(f"examples:\n{EXAMPLES[verb]}")
        raise


def _readable_help() -> ConstructorRegistry:
    """tyro's rules for dataclasses, but for headings and defaults as people would write them."""
    registry = ConstructorRegistry()
    busy: list[StructTypeInfo] = []

    @registry.struct_rule
    def dress(info: StructTypeInfo) -> StructConstructorSpec | None:
        if busy or not dataclasses.is_dataclass(info.type):
            return None  # tyro's own rule is next
        busy.append(info)
        spec = ConstructorRegistry.get_struct_spec(info)
        busy.pop()
        if not isinstance(spec, StructConstructorSpec):
            return None
        return dataclasses.replace(spec, fields=tuple(map(_dress_field, spec.fields)))

    return registry


def _dress_field(field: StructFieldSpec) -> StructFieldSpec:
    kind: Any = field.type
    if dataclasses.is_dataclass(kind):  # "network options" for a NetworkConfig, wherever it stands
        heading = kind.__name__.removesuffix("Config").lower()  # type: ignore[union-attr] # a class
        kind = Annotated[kind, tyro.conf.arg(name=heading, prefix_name=False)]
    elif field.default is None or field.default == ():  # what happens then is told by the field's own text
        kind = Annotated[kind, tyro.conf.arg(help_behavior_hint="(optional)")]
    return dataclasses.replace(field, type=kind)


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
