"""Show the progress of a training run on stderr."""

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from implanting.base import Validation
from implanting.console import PLAIN_INTERVAL, say
from implanting.pretraining import Event, Finished, Started, Stepped
from implanting.runtime import rank


class TrainingDisplay:
    """Shows the events of a training run: a live bar in a terminal, otherwise a line from time to time."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self.live = rank() == 0 and console.is_terminal
        self.printed = 0.0
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
        )
        self.progress = Progress(*columns, console=console, disable=not self.live)
        self.task = self.progress.add_task("training", total=None, figures="")

    def __enter__(self) -> "TrainingDisplay":
        self.progress.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.progress.stop()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        match event:
            case Started():
                if event.unvalidated:
                    self.line(f"no few-shot validation: {event.unvalidated}")
                self.progress.update(self.task, total=event.steps, completed=event.step)
                self.line(f"step {event.step} of {event.steps}, {event.images} base images")
            case Stepped():
                self.step(event)
            case Validation():
                self.line(f"step {event.step}: validation {event}")
            case _:
                ended = "finished" if isinstance(event, Finished) else "stopped"
                self.line(f"{ended} at step {event.step} after {event.seconds:.0f} s")

    def step(self, event: Stepped) -> None:
        """Move the bar, or print the state of training if enough time has passed since the last line."""
        figures = (
            f"loss {event.loss:.3f}  accuracy {100 * event.accuracy:.1f} %  tau {event.tau:.2f}  "
            f"{event.images_per_second:.0f} images/s"
        )
        self.progress.update(self.task, completed=event.step, figures=figures)
        if not self.live and time.monotonic() - self.printed > PLAIN_INTERVAL:
            self.printed = time.monotonic()
            self.line(f"step {event.step}  {figures}  {event.seconds_left / 60:.1f} min left")

    def line(self, text: str) -> None:
        """Print a permanent line, above the bar."""
        if self.live:
            self.progress.console.print(text, highlight=False)
        else:
            say(text)
