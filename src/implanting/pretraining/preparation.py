"""The preparation of a run: settings and data are checked, and step 0 is set up."""

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from implanting.base import BaseDescription, BaseNetwork, TrainingFacts, build, load_base
from implanting.baselines import System, build_system
from implanting.config import LOWERED, PretrainConfig
from implanting.datasets import ImageSet, check_disjoint
from implanting.dense_classification import CosineClassifier
from implanting.errors import ConfigError
from implanting.images import Normalisation
from implanting.networks import Network
from implanting.pretraining.episodes import EpisodeSource
from implanting.pretraining.optimisation import build_optimizer, total_steps
from implanting.pretraining.precision import uses_bf16
from implanting.pretraining.rotation import RotationHead
from implanting.pretraining.run import Run, StageOne
from implanting.pretraining.validation import FewShotTest, few_shot_test, why_no_validation
from implanting.runtime import check_destination, holds, is_our_picture, world_size
from implanting.version import __version__

LOG, CURVES = ".jsonl", ".png"
"""Endings of the files that are written next to a base network."""


@dataclass(frozen=True)
class Output:
    """The file of a run, and whether an existing file is resumed or replaced; an unusable path is refused."""

    path: Path
    resume: bool = False
    """Continue from the existing file; start from the beginning if there is none."""
    overwrite: bool = False
    """Replace the existing file."""

    def __post_init__(self) -> None:
        check_destination(self.path)
        if self.resume and self.overwrite:
            raise ConfigError("`resume` goes on with what `out` holds and `overwrite` replaces it: choose one")
        if os.path.lexists(self.path) and not (self.resume or self.overwrite):
            raise ConfigError(
                f"`out` {self.path} exists already; continue it with `resume`, replace it with `overwrite`"
            )
        for ending, ours in (LOG, holds(b'{"event": ')), (CURVES, is_our_picture):
            beside = self.path.with_suffix(ending)
            check_destination(beside, "out", ending, replaces=ours, overwrite=self.overwrite)


def prepare(
    config: PretrainConfig,
    base_images: ImageSet,
    validation: ImageSet | None,
    device: torch.device,
) -> Run:
    """A run at step 0."""
    _check(config, base_images, validation)
    images, held_out = base_images, torch.empty(0, dtype=torch.int64)
    if config.data.hold_out:
        held_out = base_images.choose_held_out(config.data.hold_out, config.seed)
        images = base_images.without(held_out)
    height, width = images.images.shape[1:3]
    network, classifier = build(config, len(images.class_names), (height, width))
    network.trains_in_bf16 = config.method in LOWERED and uses_bf16(config.precision, device)
    if config.shrink_size is not None:
        network.map_size(config.shrink_size, config.shrink_size)
    if config.start is not None:
        _start_from(_finished("start", load_base(config.start)), config, network, classifier, images)
    episodes = None if config.method == "cosine" else EpisodeSource(images, config)
    model = _model(config, network, classifier, len(images.class_names), (height, width)).to(device)
    teacher = _finished("teacher", load_base(config.teacher, str(device))) if config.teacher else None
    steps = total_steps(config, len(images))
    description = BaseDescription(
        config=config,
        class_names=images.class_names,
        normalisation=Normalisation.of(images.images),
        image_size=(height, width),
        resizing=images.resizing,
        data_name=base_images.name,
        data_fingerprint=base_images.fingerprint,
        held_out=tuple(held_out.tolist()),
        code_version=__version__,
        training=TrainingFacts(step=0, steps=steps, seconds=0.0, device=str(device)),
        teacher_fingerprint=teacher.fingerprint if teacher else None,
    )
    tested, unvalidated = _validation(config, validation, description.normalisation)
    optimizer = build_optimizer(config, model)
    return Run(
        config, images, tested, description, model, optimizer, device, steps, teacher, episodes, unvalidated=unvalidated
    )


def _model(
    config: PretrainConfig,
    network: Network,
    classifier: CosineClassifier | None,
    classes: int,
    image_size: tuple[int, int],
) -> StageOne | System:
    if config.method == "cosine" and classifier is not None:
        return StageOne(network, classifier, RotationHead(network.dim) if config.rotation else None)
    return build_system(config, network, classifier, classes, image_size)


def _finished(setting: str, base: BaseNetwork) -> BaseNetwork:
    if not base.finished:
        raise ConfigError(f"`{setting}`: the training of {base.name} is not finished; finish it with `resume`")
    return base


def _start_from(
    base: BaseNetwork, config: PretrainConfig, network: Network, classifier: CosineClassifier | None, images: ImageSet
) -> None:
    """Take the weights of a finished base network, and its class weights if both learn the same classes."""
    known = base.classifier if base.class_names == images.class_names else None
    if config.method == "gidaris" and known is None:
        raise ConfigError(f"`start`: {base.name} has no class weights of the classes of {images.name}")
    try:
        network.load_state_dict(base.network.state_dict())
        if classifier is not None and known is not None:
            classifier.load_state_dict(known.state_dict())
    except RuntimeError as error:
        raise ConfigError(
            f"`start`: {base.name} has another shape; give the same `network`, `width` and `pooling`"
        ) from error


def _check(config: PretrainConfig, base_images: ImageSet, validation: ImageSet | None) -> None:
    if config.method == "tadam" and world_size() > 1:
        raise ConfigError("`method` tadam trains in one process: some of its steps leave some weights alone")
    if config.method != "cosine" and config.episode.episodes % world_size():
        episodes = config.episode.episodes
        raise ConfigError(f"`episodes` {episodes} cannot be shared by {world_size()} processes evenly")
    if config.method == "cosine" and config.batch_size % world_size():
        raise ConfigError(f"`batch_size` {config.batch_size} cannot be shared by {world_size()} processes evenly")
    side = min(base_images.images.shape[1:3])
    if config.augment.crop_padding >= side:
        raise ConfigError(f"`crop_padding` {config.augment.crop_padding} must be below the image's {side} px")
    height, width = base_images.images.shape[1:3]
    if config.rotation and height != width:
        raise ConfigError(f"`rotation` needs square images, and these have {width} x {height} px: set `image_size`")
    if len(base_images.class_names) < 2:
        raise ConfigError(f"{base_images.name} has one class; a classifier needs two or more base classes")
    if validation is not None:
        check_disjoint(base_images, validation)


def _validation(
    config: PretrainConfig, validation: ImageSet | None, normalisation: Normalisation
) -> tuple[FewShotTest | None, str | None]:
    """The test on validation classes, or the reason why the given classes cannot be used."""
    if validation is None or not config.validation_tasks:
        return None, None
    reason = why_no_validation(config, validation)
    return (None, reason) if reason else (few_shot_test(config, validation, normalisation), None)
