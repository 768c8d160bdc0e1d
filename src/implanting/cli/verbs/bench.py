"""`implanting bench`: speed and memory as ratios, measured in one run."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from implanting.bench import Adapt, Classifier, Evaluate, Inference, Photos, Pretrain, Serve
from implanting.cli.parsing import parse
from implanting.console import print_json, print_text
from implanting.errors import ConfigError
from implanting.runtime import set_threads

Subject = Pretrain | Adapt | Evaluate | Inference | Classifier | Photos | Serve

SUBJECTS: dict[str, type[Subject]] = {
    "pretrain": Pretrain,
    "adapt": Adapt,
    "evaluate": Evaluate,
    "inference": Inference,
    "classifier": Classifier,
    "photos": Photos,
    "serve": Serve,
}

USAGE = f"""usage: implanting bench {{{",".join(SUBJECTS)}}} [options]

photos FOLDER compares `implanting` with logistic regression on your own photos: accuracy, calibration and time.
The others measure speed and memory on this machine, as ratios: the contestants take turns in one run, and the best
turn of each counts.
`implanting bench SUBJECT --help` says what is compared."""


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print_text(USAGE)
        return 0
    subject, *rest = arguments
    if subject not in SUBJECTS:
        raise ConfigError(f"unknown subject '{subject}' of a bench: choose one of {', '.join(SUBJECTS)}")
    command = parse(SUBJECTS[subject], f"bench {subject}", rest)
    set_threads(command.run.threads)
    began = time.monotonic()
    rows, once = command()
    print_results(command, rows, once, time.monotonic() - began)
    return 0


def print_results(command: Subject, rows: list[dict[str, Any]], once: dict[str, Any], seconds: float) -> None:
    """Print the tables, or the JSON document."""
    if command.json:
        print_json(dataclasses.asdict(command), seconds, rows, **once)
    else:
        command.show(rows, once)
