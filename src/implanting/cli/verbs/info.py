"""`implanting info`: describe a checkpoint and whether this machine can run it, the recipes, or the methods."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import indent, shorten
from typing import Annotated

import tyro

from implanting.base import BaseNetwork, base_document, load_base
from implanting.baselines import METHODS
from implanting.classifier import KIND as CLASSIFIER
from implanting.classifier import ImageClassifier
from implanting.cli.parsing import parse
from implanting.cli.verbs.trial import trial
from implanting.console import print_document, print_table, print_text
from implanting.errors import ConfigError
from implanting.pretraining import RECIPES
from implanting.runtime import FORMAT, kind_of


@dataclass(frozen=True)
class Info:
    """Describe a base network or a classifier, and whether this machine can run it; or all recipes; or all methods."""

    file: Annotated[Path | None, tyro.conf.Positional] = None
    """A classifier (`implanting fit`) or a base network (`implanting pretrain`, or a name such as
    efficientnet-lite0)."""
    recipes: bool = False
    """Describe the recipes instead."""
    methods: bool = False
    """List the methods of `implanting evaluate --method`, with their citations and what they need."""
    base: str | None = None
    """The base network of a slim classifier, if it is not found by name."""
    json: bool = False
    """The whole description as one JSON document."""


def main(arguments: Sequence[str]) -> int:
    """Describe the file or the recipes."""
    command = parse(Info, "info", arguments)
    if command.recipes:
        _show_recipes(command)
        return 0
    if command.methods:
        _show_methods(command)
        return 0
    if command.file is None:
        raise ConfigError("nothing to describe: name a file, or ask for --recipes or --methods")
    if kind_of(command.file) == CLASSIFIER:
        _show_classifier(command, ImageClassifier.load(command.file, base=command.base))
    else:
        _show_base(command, load_base(command.file))
    return 0


def _show_recipes(command: Info) -> None:
    if command.json:
        print_document({"recipes": {name: asdict(recipe) for name, recipe in RECIPES.items()}})
        return
    print_text("\n\n".join(f"{name}\n{indent(recipe.about, '  ')}" for name, recipe in RECIPES.items()))


def _show_methods(command: Info) -> None:
    if command.json:
        print_document({"methods": {name: asdict(card) for name, card in METHODS.items()}})
        return
    texts = [f"{name}\n  {card.title}\n  {card.citation}\n  needs: {card.needs}" for name, card in METHODS.items()]
    print_text("\n\n".join(texts))


def _show_classifier(command: Info, classifier: ImageClassifier) -> None:
    """Describe a classifier and its base network."""
    facts, base = _describe_classifier(classifier), classifier.base_
    if command.json:
        machine = trial(base).document()
        print_document({"format": FORMAT, "kind": CLASSIFIER, **facts, "base": base.summary(), "machine": machine})
        return
    rows = [[title, shorten(text, 90)] for title, text in facts.items()]
    rows += [["base network", shorten(base.name, 90)], ["this machine", str(trial(base))]]
    print_table(str(command.file), ["", ""], rows)


def _describe_classifier(classifier: ImageClassifier) -> dict[str, str]:
    learned, names = classifier.learned_, list(map(str, classifier.classes_.tolist()))
    counts = learned.counts.tolist()
    calibrated = {
        "supports": "from its own images",
        "base": "from the base's validation images",
        "nothing": "not calibrated",
    }
    images = "not kept" if learned.supports is None else f"{len(learned.supports[1])} kept in the file"
    return {
        "classes": f"{len(names)}: {', '.join(names)}",
        "images a class": f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else str(counts[0]),
        "support images": images,
        "implants": "none" if learned.implants is None else f"{learned.implants.layers[-1].gamma.shape[-1]} channels",
        "pooling": f"{learned.classify} (support/query)",
        "probabilities": calibrated[learned.calibration.told_by],
        "unknown": "never answered" if classifier.unknown is None else f"{classifier.unknown!r}, {classifier.refuse:g}",
        "image size": f"{learned.size} px",
    }


def _show_base(command: Info, base: BaseNetwork) -> None:
    if command.json:
        facts = {"tau": base.tau, "parameters": base.parameters, "machine": trial(base).document()}
        print_document({"format": FORMAT, **base_document(base)[0], **facts})
        return
    rows = [[title, shorten(text, 90)] for title, text in base.summary().items()]
    for last in base.description.training.validation[-1:] if base.description else ():
        rows.append(["validation classes", str(last)])
    rows.append(["this machine", str(trial(base))])
    made_by = f"made by implanting {base.description.code_version}" if base.description else ""
    print_table(str(command.file), ["", ""], rows, made_by)
