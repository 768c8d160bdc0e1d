"""A run of stage 1: what is trained, on what, how far it is, and how it is saved and taken up again.

The checkpoint of an unfinished run is a base network like any other, with the optimiser's tensors beside it.
"""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from implanting.base import BaseDescription, build, load_base, load_weights, read_base, save_base
from implanting.config import PretrainConfig, flat
from implanting.datasets import ImageSet, check_disjoint
from implanting.dense_classification import CosineClassifier
from implanting.errors import CheckpointError, ConfigError
from implanting.images import Normalisation
from implanting.networks import Network
from implanting.pretraining.optimisation import build_optimizer, load_optimizer, optimizer_tensors, total_steps
from implanting.pretraining.teacher import soft_labels
from implanting.pretraining.validation import FewShotTest, few_shot_test
from implanting.runtime import Progress, check_destination, from_rank_zero, rank, silent, world_size
from implanting.version import __version__


class StageOne(nn.Module):
    """The network and its classifier as the one module that is trained."""

    def __init__(self, network: Network, classifier: CosineClassifier) -> None:
        super().__init__()
        self.network = network
        self.classifier = classifier

    def forward(self, images: Float[Tensor, "image 3 height width"]) -> Float[Tensor, "image location way"]:
        maps = self.network(images)
        with torch.autocast(images.device.type, enabled=False):  # cosines times a tau of 100 need single precision
            return self.classifier(maps.float())


@dataclass
class Run:
    """A training run: what is trained, on what, and how far it is."""

    config: PretrainConfig
    images: ImageSet
    validation: FewShotTest | None
    description: BaseDescription
    model: StageOne
    optimizer: torch.optim.Optimizer
    device: torch.device
    steps: int
    soft: Float[Tensor, "image base_class"] | None = None
    """What the teacher says of each image, where there is one."""
    step: int = 0
    seconds: float = 0.0
    figures: dict[str, float] = field(default_factory=dict)
    validations: list[dict[str, Any]] = field(default_factory=list)
    calibration: dict[str, Any] | None = None
    """How sure the finished network may be, from validation classes."""

    @property
    def uncalibrated(self) -> bool:
        """Whether validation classes could still tell how sure the finished network may be."""
        return self.step == self.steps and self.calibration is None and self.validation is not None

    def describe(self) -> BaseDescription:
        """The description of the base network as it stands."""
        finished = self.step == self.steps
        training: dict[str, Any] = {
            "step": self.step,
            "steps": self.steps,
            "finished": finished,
            "seconds": self.seconds,
        }
        training |= {"images_per_second": self.step * self.config.batch_size / max(self.seconds, 1e-9)}
        training |= {"device": str(self.device), "processes": world_size(), "threads": torch.get_num_threads()}
        return dataclasses.replace(
            self.description,
            training=training | self.figures | {"validation": self.validations, "calibration": self.calibration},
        )

    def save(self, out: Path) -> None:
        """Write the checkpoint; while training is unfinished, with what is needed to go on."""
        further = optimizer_tensors(self.optimizer) if self.step < self.steps else {}
        if rank() == 0:
            save_base(out, self.model.network, self.model.classifier, self.describe(), further)


def check_output(out: Path, resume: bool, overwrite: bool) -> None:
    """Refuse, before anything slow is done, to write where nothing can be written or something would be lost."""
    check_destination(out)
    if resume and overwrite:
        raise ConfigError("--resume goes on with what --out holds and --overwrite replaces it: choose one")
    if out.exists() and not (resume or overwrite):
        raise ConfigError(f"--out {out} exists already; continue it with --resume, replace it with --overwrite")


def prepare(
    config: PretrainConfig,
    base_images: ImageSet,
    validation: ImageSet | None,
    device: torch.device,
    progress: Progress = silent,
) -> Run:
    """Check everything that can be known before training, and set up step 0."""
    if config.batch_size % world_size():
        raise ConfigError(f"--batch-size {config.batch_size} cannot be shared by {world_size()} processes evenly")
    height, width = base_images.images.shape[1:3]
    if config.augment.crop_padding >= min(height, width):
        raise ConfigError(
            f"--crop-padding {config.augment.crop_padding} must be below the image's {min(height, width)} px"
        )
    if len(base_images.class_names) < 2:
        raise ConfigError(f"{base_images.name} has one class; a classifier needs two or more base classes")
    if validation is not None:
        check_disjoint(base_images, validation)
    images, held_out = base_images, torch.empty(0, dtype=torch.int64)
    if config.data.hold_out:
        held_out = base_images.choose_held_out(config.data.hold_out, config.seed)
        images = base_images.without(held_out)
    normalisation = Normalisation.of(images.images)
    network, classifier = build(config, len(images.class_names), (height, width))
    if config.shrink_size is not None:
        network.map_size(config.shrink_size, config.shrink_size)
    model = StageOne(network, classifier).to(device)
    teacher = load_base(config.teacher, str(device)) if config.teacher else None
    description = BaseDescription(
        config=config,
        class_names=images.class_names,
        normalisation=normalisation,
        image_size=(height, width),
        resizing=images.resizing,
        data_name=base_images.name,
        data_fingerprint=base_images.fingerprint,
        held_out=tuple(held_out.tolist()),
        code_version=__version__,
        training={},
        teacher_fingerprint=teacher.fingerprint if teacher else None,
    )
    few_shot = few_shot_test(config, validation, normalisation) if validation is not None else None
    optimizer = build_optimizer(config, model)
    soft = soft_labels(teacher, images, progress) if teacher else None
    return Run(config, images, few_shot, description, model, optimizer, device, total_steps(config, len(images)), soft)


FREE = frozenset({"validate_every", "validation_tasks", "save_every"})
"""Settings that do not change the weights and so may differ when a run is resumed."""


def resume(run: Run, out: Path) -> None:
    """Go on from a checkpoint where there is one; only the host of rank 0 need have it."""
    saved = read_saved(run, out) if rank() == 0 and out.exists() else None
    saved = from_rank_zero(saved)
    if saved is not None:
        restore(run, *saved, out)


def read_saved(run: Run, out: Path) -> tuple[BaseDescription, dict[str, Tensor]]:
    """A checkpoint, after checking that it is of this very run."""
    saved, tensors = read_base(out)
    check_same(saved, run.config, run.description.data_fingerprint, out, run.description.teacher_fingerprint)
    return saved, tensors


def check_same(
    saved: BaseDescription, config: PretrainConfig, data_fingerprint: str, out: Path, teacher: str | None = None
) -> None:
    """Refuse a checkpoint that was trained with other settings, on other images or, where both are known, by another
    teacher (its fingerprint).
    """
    if saved.retired:
        retired = ", ".join(f"{name} {value}" for name, value in saved.retired.items())
        raise CheckpointError(
            f"cannot go on from {out}: it was trained with {retired}, which this version cannot do any more; finish it "
            f"with version {saved.code_version}, or train again"
        )
    there, here = flat(saved.config), flat(config)
    differing = [
        f"--{name.replace('_', '-')} was {there[name]} and is {value}"
        for name, value in here.items()
        if name not in FREE and there[name] != value
    ]
    if saved.data_fingerprint != data_fingerprint:
        there_and_here = f"{saved.data_fingerprint[:8]}, here {data_fingerprint[:8]}"
        differing.append(f"it was trained on other images ({saved.data_name} of fingerprint {there_and_here})")
    if teacher and saved.teacher_fingerprint not in (None, teacher):
        differing.append(f"--teacher {config.teacher} is another network now ({teacher[:8]})")
    if differing:
        raise ConfigError(f"cannot go on from {out}: {'; '.join(differing)}; give the same again, or another --out")


def restore(run: Run, saved: BaseDescription, tensors: dict[str, Tensor], out: Path) -> None:
    """Bring a run to where a checkpoint stands."""
    load_weights(run.model.network, run.model.classifier, tensors, out)
    if not saved.training["finished"]:
        load_optimizer(run.optimizer, tensors)
    run.step, run.seconds = saved.training["step"], saved.training["seconds"]
    run.figures = {name: saved.training[name] for name in ("loss", "accuracy", "tau") if name in saved.training}
    run.validations = list(saved.training["validation"])
    run.calibration = saved.training.get("calibration")
