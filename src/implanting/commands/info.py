"""`implanting info`: what a checkpoint holds, and what the recipes are."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent, shorten
from typing import Annotated

import torch
import tyro

from implanting.base import load_base
from implanting.checkpoint import FORMAT
from implanting.commands.parsing import parse
from implanting.console import describe, print_document, print_table, print_text
from implanting.errors import ConfigError
from implanting.recipes import RECIPES


@dataclass(frozen=True)
class Info:
    """What a base network is: its network, classes, data, training and accuracy. Or the recipes of stage 1."""

    file: Annotated[Path | None, tyro.conf.Positional] = None
    """A base network made by `implanting pretrain`."""
    recipes: bool = False
    """Describe the recipes instead."""
    json: bool = False
    """The whole description as one JSON document."""


def main(arguments: Sequence[str]) -> int:
    """Describe the file or the recipes."""
    command = parse(Info, "info", arguments)
    if command.recipes:
        print_text("\n\n".join(f"{name}\n{indent(recipe.about, '  ')}" for name, recipe in RECIPES.items()))
        return 0
    if command.file is None:
        raise ConfigError("nothing to describe: name a file, or ask for --recipes")
    base = load_base(command.file)
    described = base.description
    if command.json:
        document = (
            {"format": FORMAT} | described.document() | {"tau": base.tau, "parameters": count_parameters(base.network)}
        )
        print_document(document)
        return 0
    training, config = described.training, described.config
    state = "finished" if training["finished"] else f"unfinished: step {training['step']} of {training['steps']}"
    rows = [
        [
            "network",
            f"{config.architecture.network}, width {config.architecture.width}{', wide' * config.architecture.wide}",
        ],
        ["parameters", f"{count_parameters(base.network):,}"],
        ["trained with", f"{config.pooling} classification, tau {config.tau:g} -> {base.tau:.2f}"],
        ["base classes", f"{len(described.class_names)}: {shorten(', '.join(described.class_names), 60)}"],
        ["data", f"{described.data_name}, {described.image_size[1]} x {described.image_size[0]} px"],
        ["resizing", described.resizing],
        ["held out", f"{len(described.held_out)} images"],
        ["training", f"{state}, {training['seconds'] / 60:.1f} min on {training['device']}"],
    ]
    for last in training["validation"][-1:]:
        rows.append(["validation classes", describe(last)])
    print_table(str(command.file), ["", ""], rows, f"made by implanting {described.code_version}")
    return 0


def count_parameters(module: torch.nn.Module) -> int:
    """The trainable numbers of a module."""
    return sum(parameter.numel() for parameter in module.parameters())
