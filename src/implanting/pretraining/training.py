"""Stage 1: train a network on base classes with a cosine classifier (Eq. 10).

The choices made. A step is a function of the weights before it and of (seed, step), so nothing but weights, optimiser
and step number need be saved, and a run that was killed goes on to bit-identical weights. In several processes every
rank draws the whole batch and keeps its share. Few-shot validation sees validation classes only and never steers
training: the last iterate is kept.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from implanting.base import BaseNetwork
from implanting.config import PretrainConfig
from implanting.datasets import ImageSet
from implanting.errors import ConfigError
from implanting.pretraining.events import Finished, Observer, Started, Stepped, Stopped, ignore
from implanting.pretraining.preparation import Output, prepare
from implanting.pretraining.resuming import resume as resume_run
from implanting.pretraining.run import Run
from implanting.runtime import Progress, choose_device, process_group, rank, restarted, silent, synchronise, world_size


def pretrain(
    config: PretrainConfig,
    base_images: ImageSet,
    validation: ImageSet | None,
    out: str | Path | Output | None,
    *,
    device: str | torch.device = "auto",
    resume: bool = False,
    overwrite: bool = False,
    observe: Observer = ignore,
    stop: Callable[[], bool] = lambda: False,
    progress: Progress = silent,
) -> BaseNetwork:
    """Train on base classes, save to `out`, and return the base network. If `out` is None, nothing is saved.

    If `stop` returns True, the run is saved and returned unfinished: `resume` continues it. An `Output`
    instead of a path also says whether to resume or to overwrite.
    """
    if isinstance(out, str | Path):
        out = Output(Path(out), resume, overwrite)
    device = choose_device(device) if isinstance(device, str) else device
    run = prepare(config, base_images, validation, device)
    if out and out.overwrite and rank() == 0 and not restarted():
        out.path.unlink(missing_ok=True)  # else a worker that is started again would go on from it
    with process_group(device):
        if out and out.resume:
            resume_run(run, out.path)
        if not run.complete:  # otherwise the file is finished and is not written again
            run.ask_teacher(progress)
            train(run, out.path if out else None, observe if rank() == 0 else ignore, stop)
    return run.base()


def train(run: Run, out: Path | None, observe: Observer, stop: Callable[[], bool]) -> None:
    """Step until all steps are done or a stop is requested; report, validate and save on the way."""
    observe(Started(run.step, run.steps, len(run.images), run.unvalidated))
    model = _parallel(run.model, run.device).train()
    meter = Meter(run)
    saved = time.monotonic()
    stopping = False
    while not run.finished and not stopping:
        figures = run.train_step(model)
        figures = synchronise(run.model, torch.cat([figures, figures.new_tensor([float(stop())])]))
        stopping = bool(figures[2] > 0)
        if stepped := meter.record(figures[:2], stopping):
            observe(stepped)
        began = time.monotonic()
        if validated := run.validate():
            observe(validated)
            meter.last += time.monotonic() - began  # the steps of its window were not slower for that
        if out and time.monotonic() - saved > run.config.save_every and not run.finished:
            run.save(out)
            saved = time.monotonic()
    run.calibrate()
    if out:
        run.save(out)
    observe(Finished(run.step, run.seconds) if run.finished else Stopped(run.step, run.seconds))


def _parallel(model: nn.Module, device: torch.device) -> nn.Module:
    """The model as all processes train it together; batch norm is synchronised on GPUs, where PyTorch can."""
    if world_size() == 1:
        return model
    if device.type == "cuda":
        return DistributedDataParallel(
            nn.SyncBatchNorm.convert_sync_batchnorm(model), [device], forward_sync_buffers=False
        )
    return DistributedDataParallel(model, forward_sync_buffers=False)


class Meter:
    """Averages the figures of a few steps, and estimates speed and remaining time."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.every = max(1, min(10, run.steps // 200))
        self.window: list[Tensor] = []
        self.began = self.last = time.monotonic()
        self.before = run.seconds

    def record(self, figures: Float[Tensor, " 2"], last: bool) -> Stepped | None:
        """Add one step's loss and accuracy; every few steps, and at the last, give the run their averages."""
        run = self.run
        self.window.append(figures)
        if len(self.window) < self.every and not run.finished and not last:
            return None
        now = time.monotonic()
        loss, accuracy = torch.stack(self.window).mean(0).tolist()
        if not math.isfinite(loss):
            raise ConfigError(
                f"the loss is {loss} at step {run.step}: lower `learning_rate`, and start with `overwrite`"
            )
        run.note(loss, accuracy, self.before + now - self.began)
        images, batch_size = len(run.images), run.images_per_step
        speed = len(self.window) * batch_size / (now - self.last)
        self.window, self.last = [], now
        return Stepped(
            step=run.step,
            epoch=run.step * batch_size / images,
            loss=loss,
            accuracy=accuracy,
            tau=run.model.tau,
            learning_rate=run.optimizer.param_groups[0]["lr"],
            images_per_second=speed,
            seconds_left=(run.steps - run.step) * batch_size / speed,
        )
