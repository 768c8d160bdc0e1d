"""The log of a run as JSON lines, and its curves as a picture."""

import json
from pathlib import Path

from implanting.base import Validation
from implanting.errors import DataError
from implanting.pretraining.events import Event, Started, Stepped, event_document, event_from_document
from implanting.runtime import append_to, open_file, parse_json, write_atomically, write_figure


class TrainingLog:
    """Appends a run's events to a file, a JSON document a line.

    A resumed run continues the log from its checkpoint: later events of the killed run are dropped. A run
    that is refused before it starts leaves no log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, event: Event) -> None:
        """Note one event."""
        if isinstance(event, Started):
            before = read_log(self.path) if event.step and self.path.exists() else []
            kept = [earlier for earlier in before if earlier.step <= event.step]
            write_atomically(self.path, "".join(map(_line, kept)).encode())
        append_to(self.path, _line(event).encode())


def _line(event: Event) -> str:
    return json.dumps(event_document(event)) + "\n"


def read_log(path: Path) -> list[Event]:
    """The events of a log; a last line that was cut off when the process was killed is skipped."""
    with open_file(path) as file:
        lines = file.read().split(b"\n")
    events = []
    for number, line in enumerate(lines[:-1], start=1):  # a whole line ends in a line end, so that nothing comes after
        try:
            events.append(event_from_document(parse_json(line)))
        except ValueError as fault:
            raise DataError(
                f"{path} is damaged: line {number} is not an event of a run ({fault}); move it away to go on without"
            ) from fault
    return events


def plot_training(log: Path, picture: Path) -> None:
    """Loss, accuracy and few-shot validation over the steps of a run."""
    from matplotlib.figure import Figure  # slow to import, and needed here only

    events = read_log(log)
    steps = [event for event in events if isinstance(event, Stepped)]
    validations = [event for event in events if isinstance(event, Validation)]
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    losses, accuracies = figure.subplots(1, 2)
    losses.plot([event.step for event in steps], [event.loss for event in steps], linewidth=0.8)
    losses.set(title="loss on base classes", xlabel="step", ylabel="cross-entropy, mean over locations")
    accuracies.plot(
        [event.step for event in steps],
        [100 * event.accuracy for event in steps],
        linewidth=0.8,
        label="base classes, augmented",
    )
    if validations:
        accuracies.errorbar(
            [event.step for event in validations],
            [100 * event.mean for event in validations],
            [100 * (event.interval or 0.0) for event in validations],  # a single task has none
            marker="o",
            markersize=3,
            capsize=2,
            label=f"validation classes, 5-way 5-shot ({validations[-1].tasks} tasks, 95 %)",
        )
    accuracies.set(title="accuracy", xlabel="step", ylabel="%", ylim=(0, 100))
    accuracies.legend(loc="lower right", fontsize="small")
    write_figure(figure, picture, 120)
