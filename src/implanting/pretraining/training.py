"""Stage 1: train a network on base classes with a cosine classifier (Eq. 10).

The choices made. A step is a function of the weights before it and of (seed, step), so nothing but weights, optimiser
and step number need be saved, and a run that was killed goes on to bit-identical weights. In several processes every
rank draws the whole batch and keeps its share. Few-shot validation sees validation classes only and never steers
training: the last iterate is kept.
"""

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from implanting.base import BaseNetwork
from implanting.config import PretrainConfig
from implanting.datasets import ImageSet
from implanting.dense_classification import classification_loss, probabilities
from implanting.errors import ConfigError
from implanting.pretraining.augment import shrink
from implanting.pretraining.batches import batch, batch_indices
from implanting.pretraining.optimisation import schedule
from implanting.pretraining.run import Run, StageOne, check_output, prepare
from implanting.pretraining.run import resume as resume_run
from implanting.pretraining.teacher import targets
from implanting.pretraining.validation import FewShotTest
from implanting.runtime import (
    Progress,
    choose_device,
    process_group,
    rank,
    restarted,
    share,
    silent,
    synchronise,
    world_size,
)

Observer = Callable[[Mapping[str, Any]], None]
"""Told of a run's events: mappings with `event` (started, step, validation, stopped, finished) and its figures."""


def ignore(event: Mapping[str, Any]) -> None:
    """An observer that does nothing."""


def pretrain(
    config: PretrainConfig,
    base_images: ImageSet,
    validation: ImageSet | None,
    out: str | Path,
    *,
    device: str | torch.device = "auto",
    resume: bool = False,
    overwrite: bool = False,
    observe: Observer = ignore,
    stop: Callable[[], bool] = lambda: False,
    progress: Progress = silent,
) -> BaseNetwork:
    """Train on base classes, save to `out`, and give the base network.

    Where `stop` turns true, the run is saved as it stands and given back unfinished: `--resume` goes on from there.
    """
    out = Path(out)
    check_output(out, resume, overwrite)
    device = choose_device(device) if isinstance(device, str) else device
    run = prepare(config, base_images, validation, device, progress)
    if overwrite and rank() == 0 and not restarted():
        out.unlink(missing_ok=True)  # else a worker that is started again would go on from it
    with process_group(device):
        if resume:
            resume_run(run, out)
        if run.step < run.steps or run.uncalibrated:  # else the file is finished, and stays as it is
            train(run, out, observe if rank() == 0 else ignore, stop)
    return BaseNetwork.from_training(run.model.network, run.model.classifier, run.describe())


def train(run: Run, out: Path, observe: Observer, stop: Callable[[], bool]) -> None:
    """Step until all steps are done or a stop is asked for; log, validate and save on the way."""
    observe({"event": "started", "step": run.step, "steps": run.steps, "images": len(run.images)})
    model = parallel(run.model, run.device).train()
    meter = Meter(run)
    saved = time.monotonic()
    stopping = False
    while run.step < run.steps and not stopping:
        figures = train_step(run, model)
        figures = synchronise(run.model, torch.cat([figures, figures.new_tensor([float(stop())])]))
        stopping = bool(figures[2] > 0)
        if record := meter.record(figures[:2], stopping):
            observe(record)
        if run.validation is not None and validation_due(run):
            observe(validate(run, run.validation))
            meter.last = time.monotonic()
        if time.monotonic() - saved > run.config.save_every and run.step < run.steps:
            run.save(out)
            saved = time.monotonic()
    if run.validation is not None and run.uncalibrated:
        run.calibration = run.validation.calibration(run.model.network, run.model.classifier.tau.item()).document()
    run.save(out)
    observe({"event": "finished" if run.step == run.steps else "stopped", "step": run.step, "seconds": run.seconds})


def train_step(run: Run, model: nn.Module) -> Float[Tensor, " 2"]:
    """One step of gradient descent on the next batch; gives its loss and accuracy."""
    images, labels = batch(run.images, run.config.augment, run.config.batch_size, run.config.seed, run.step)
    learned = labels if run.soft is None else targets(labels, run.soft[batch_of(run)], run.config.teacher_share)
    part = share(len(labels))
    images, labels, learned = (values[part].to(run.device) for values in (images, labels, learned))
    with torch.autocast(
        run.device.type, torch.bfloat16, enabled=run.device.type == "cuda" and torch.cuda.is_bf16_supported()
    ):
        scores = model(inputs(run, images))
    loss = classification_loss(scores, learned)
    for group in run.optimizer.param_groups:
        group["lr"] = schedule(run.config, (run.step + 0.5) / run.steps)
    run.optimizer.zero_grad()
    loss.backward()
    run.optimizer.step()
    run.step += 1
    right = probabilities(scores.detach()).argmax(-1) == labels
    return torch.stack([loss.detach(), right.float().mean()])


def batch_of(run: Run) -> Int[Tensor, " image"]:
    """Which images the next step sees."""
    return batch_indices(run.step, run.config.batch_size, len(run.images), run.config.seed)


def inputs(run: Run, images: UInt8[Tensor, "image height width 3"]) -> Float[Tensor, "image 3 _ _"]:
    """Normalised images, shrunken in the first part of training where the configuration says so."""
    normalised = run.description.normalisation(images)
    size, share_shrunken = run.config.shrink_size, run.config.shrink_share
    return shrink(normalised, size) if size is not None and run.step < share_shrunken * run.steps else normalised


def parallel(model: StageOne, device: torch.device) -> nn.Module:
    """The model as all processes train it together; batch norm is synchronised on GPUs, where PyTorch can."""
    if world_size() == 1:
        return model
    if device.type == "cuda":
        return DistributedDataParallel(
            nn.SyncBatchNorm.convert_sync_batchnorm(model), [device], forward_sync_buffers=False
        )
    return DistributedDataParallel(model, forward_sync_buffers=False)


def validation_due(run: Run) -> bool:
    """Whether this step ends training or has brought the next full `validate_every` epochs; the same on all ranks."""
    if run.step == run.steps:
        return True
    interval = run.config.validate_every * len(run.images) / run.config.batch_size
    return interval > 0 and run.step // interval > (run.step - 1) // interval


def validate(run: Run, few_shot: FewShotTest) -> dict[str, Any]:
    """Test the network as it stands on few-shot tasks of the validation classes, and note the result in the run."""
    result = few_shot(run.model.network, run.model.classifier.tau.item())
    record = {"step": run.step, **result.row()}
    run.validations.append(record)
    return {"event": "validation", **record}


class Meter:
    """Averages the figures of a few steps into one record, with speed and time left."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.every = max(1, min(10, run.steps // 200))
        self.window: list[Tensor] = []
        self.began = self.last = time.monotonic()
        self.before = run.seconds

    def record(self, figures: Float[Tensor, " 2"], last: bool) -> dict[str, Any] | None:
        """Take one step's loss and accuracy; every few steps, and at the last, give the record that is due."""
        run = self.run
        self.window.append(figures)
        if len(self.window) < self.every and run.step < run.steps and not last:
            return None
        now = time.monotonic()
        loss, accuracy = torch.stack(self.window).mean(0).tolist()
        if not math.isfinite(loss):
            raise ConfigError(
                f"the loss is {loss} at step {run.step}: lower --learning-rate, and start with --overwrite"
            )
        speed = len(self.window) * run.config.batch_size / (now - self.last)
        run.seconds = self.before + now - self.began
        run.figures = {"loss": loss, "accuracy": accuracy, "tau": run.model.classifier.tau.item()}
        left = (run.steps - run.step) * run.config.batch_size / speed
        self.window, self.last = [], now
        progress = {"event": "step", "step": run.step, "epoch": run.step * run.config.batch_size / len(run.images)}
        rate = {"learning_rate": run.optimizer.param_groups[0]["lr"]}
        return progress | run.figures | rate | {"images_per_second": speed, "seconds_left": left}
