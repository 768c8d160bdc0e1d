"""A run of stage 1: the model, the images, the training step and the checkpoint.

The checkpoint of an unfinished run is a base network like any other, and also holds the tensors of the optimiser.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from implanting.base import (
    MEAN_DIRECTION,
    BaseDescription,
    BaseNetwork,
    TrainingFacts,
    Validation,
    embed,
    load_weights,
    save_base,
)
from implanting.baselines import DynamicFewShot, Episodes, System, load_own, pooled
from implanting.config import PretrainConfig
from implanting.datasets import ImageSet
from implanting.dense_classification import CosineClassifier, classification_loss, probabilities
from implanting.networks import Network
from implanting.pretraining.augment import shrink
from implanting.pretraining.batches import batch
from implanting.pretraining.episodes import DrawnEpisodes, EpisodeSource
from implanting.pretraining.mixup import draw_mixture
from implanting.pretraining.optimisation import load_optimizer, optimizer_tensors, schedule
from implanting.pretraining.rotation import TURNS, RotationHead, rotation_loss, turn
from implanting.pretraining.teacher import soft_labels, targets
from implanting.pretraining.validation import FewShotTest
from implanting.runtime import Progress, Stream, generator_of, part, prefixed, rank, share, silent, world_size


class Scores(NamedTuple):
    """What stage 1 says of images."""

    classes: Float[Tensor, "image location way"]
    turns: Float[Tensor, "image turn"] | None
    """Scores of the quarter turns, if images are turned."""


class StageOne(nn.Module):
    """The network and its classifier as the one module that is trained; with images turned, also the head for that."""

    def __init__(self, network: Network, classifier: CosineClassifier, rotation: RotationHead | None = None) -> None:
        super().__init__()
        self.network = network
        self.classifier = classifier
        self.rotation = rotation

    def forward(self, images: Float[Tensor, "image 3 height width"]) -> Scores:
        maps = self.network(images)
        return Scores(self.classifier(maps), None if self.rotation is None else self.rotation(maps))

    @property
    def tau(self) -> float:
        """The current scale of the cosine."""
        return self.classifier.tau.item()


@dataclass
class Run:
    """A training run: the model, the images and the progress."""

    config: PretrainConfig
    images: ImageSet
    validation: FewShotTest | None
    description: BaseDescription
    """The description of the base network at step 0."""
    model: StageOne | System
    optimizer: torch.optim.Optimizer
    device: torch.device
    steps: int
    teacher: BaseNetwork | None = None
    episodes: EpisodeSource | None = None
    """The source of the episodes of each step; None if steps have batches."""
    unvalidated: str | None = None
    """The reason why the given validation classes cannot be used, if there is one."""
    soft: Float[Tensor, "image base_class"] | None = None
    """The teacher's probabilities for each image, once it was asked."""
    step: int = 0
    seconds: float = 0.0
    loss: float | None = None
    """Loss, accuracy and tau as they were last averaged over a few steps."""
    accuracy: float | None = None
    tau: float | None = None
    validations: list[Validation] = field(default_factory=list)
    calibration: Mapping[str, Any] | None = None
    """The calibration of the finished network on validation classes."""
    mean_direction: Float[Tensor, " dim"] | None = None
    """The mean direction that `generalised` added to a finished network, whose run is resumed once more."""

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.step == self.steps

    def train_step(self, model: nn.Module) -> Float[Tensor, " 2"]:
        """Take one step of gradient descent on the next batch or episodes; return its loss and accuracy."""
        if self.episodes is not None:
            figures = model(self._next_episodes(self.episodes))
            self._descend(figures[0])
            return figures.detach()
        drawn = batch(self.images, self.config.augment, self.config.batch_size, self.config.seed, self.step)
        learned = drawn.labels
        self.ask_teacher()
        if self.soft is not None:
            learned = targets(drawn.labels, self.soft[drawn.indices], self.config.teacher_share)
        seen, turns = self._turned(drawn.images)
        mine = share(len(drawn.labels))
        labels = drawn.labels[mine].to(self.device)
        inputs, learned, turns = self._mixed(seen, learned, turns, mine)
        scores = model(inputs)
        loss = classification_loss(scores.classes, learned)
        self._descend(loss if scores.turns is None else loss + rotation_loss(scores.turns, turns))
        right = probabilities(scores.classes.detach()).argmax(-1) == labels
        return torch.stack([loss.detach(), right.float().mean()])

    def ask_teacher(self, progress: Progress = silent) -> None:
        """Ask the teacher, if there is one that was not asked yet; processes share the images."""
        if self.teacher is not None and self.soft is None:
            mirrored = self.config.augment.flip
            self.soft = soft_labels(self.teacher, self.images, progress, self.config.precision, mirrored=mirrored)

    def _turned(self, images: UInt8[Tensor, "image height width 3"]) -> tuple[Tensor, Int[Tensor, " image"]]:
        """Images of which a share is turned, and the quarter turns of each."""
        if not self.config.rotation:
            return images, torch.zeros(len(images), dtype=torch.int64)
        return turn(images, self.config.rotation, generator_of(self.config.seed, Stream.ROTATION, self.step))

    def _mixed(
        self,
        images: UInt8[Tensor, "image height width 3"],
        learned: Int[Tensor, " image"] | Float[Tensor, "image base_class"],
        turns: Int[Tensor, " image"],
        mine: slice,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """This process's share of the inputs and targets of a step, mixed in pairs of the whole batch if set."""
        own = self.inputs(images[mine].to(self.device))
        if not self.config.mixup:
            return own, learned[mine].to(self.device), turns[mine].to(self.device)
        generator = generator_of(self.config.seed, Stream.MIXUP, self.step)
        mixture = draw_mixture(len(images), self.config.mixup, generator)
        if learned.ndim == 1:
            learned = F.one_hot(learned, len(self.images.class_names)).float()
        turned = F.one_hot(turns, TURNS).float()
        partners = mixture.partner[mine]
        return (
            mixture.of(own, self.inputs(images[partners].to(self.device))),
            mixture.of(learned[mine], learned[partners]).to(self.device),
            mixture.of(turned[mine], turned[partners]).to(self.device),
        )

    def _next_episodes(self, source: EpisodeSource) -> Episodes:
        """This process's share of the episodes of the step; further images are shared with their episodes."""
        drawn = source.draw(self.step, self.steps)
        images, further = self._inputs_of(drawn)
        labels = self.images.labels[drawn.further].to(self.device)
        episodes = len(drawn.classes)
        mine = share(episodes)
        if episodes and len(labels):
            further, labels = (some.unflatten(0, (episodes, -1))[mine].flatten(0, 1) for some in (further, labels))
        return Episodes(
            images=images.reshape(*drawn.indices.shape, *images.shape[1:])[mine],
            shot=self.config.episode.train_shot,
            classes=drawn.classes.to(self.device)[mine],
            further=further if len(labels) else None,
            further_labels=labels if len(labels) else None,
        )

    def _inputs_of(self, drawn: DrawnEpisodes) -> tuple[Tensor, Tensor]:
        """The images of episodes and the further ones, as pixels or as the vectors of a frozen network."""
        if self.vectors is not None:
            return self.vectors[drawn.indices.flatten()], self.vectors[drawn.further]
        images, further = drawn.images(self.images, self.config, self.step)
        return self.inputs(images.to(self.device)), self.inputs(further.to(self.device))

    @cached_property
    def vectors(self) -> Float[Tensor, "image dim"] | None:
        """The vector of every image, computed once, if the network is frozen and images are not augmented."""
        unchanged = not self.config.augment.changes_images and self.config.shrink_size is None
        if not (isinstance(self.model, DynamicFewShot) and unchanged):
            return None
        phi = embed(self.model.network, self.description.normalisation, self.images.images)
        return pooled(phi, self.config.pooling)

    @property
    def images_per_step(self) -> int:
        """Images that a step sees, summed over processes."""
        return self.config.batch_size if self.episodes is None else self.config.episode.images

    def inputs(self, images: UInt8[Tensor, "image height width 3"]) -> Float[Tensor, "image 3 _ _"]:
        """Normalised images, shrunk in the first part of training if the configuration says so."""
        normalised = self.description.normalisation(images)
        size, shrunken = self.config.shrink_size, self.step < self.config.shrink_share * self.steps
        return shrink(normalised, size) if size is not None and shrunken else normalised

    def _descend(self, loss: Float[Tensor, ""]) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = schedule(self.config, (self.step + 0.5) / self.steps)
        self.optimizer.zero_grad()
        loss.backward()
        if isinstance(self.optimizer, torch.optim.SGD):
            self._fill_gradients()
        self.optimizer.step()
        self.step += 1

    def _fill_gradients(self) -> None:
        """Zeros as gradients of weights that a step leaves alone: fused SGD needs all gradients or none.

        Adam skips weights without a gradient; with zeros it would go on moving them by its averages and by decay.
        """
        for group in self.optimizer.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    weight.grad = torch.zeros_like(weight)

    def note(self, loss: float, accuracy: float, seconds: float) -> None:
        """Store the averages over a few steps, and the seconds since training began."""
        self.loss, self.accuracy, self.tau, self.seconds = loss, accuracy, self.model.tau, seconds

    def validate(self) -> Validation | None:
        """If a test on the validation classes is due, test the current network and store the result."""
        if self.validation is None or not self._validation_due():
            return None
        system = None if isinstance(self.model, StageOne) else self.model
        result = self.validation(self.model.network, self.model.tau, system)
        self.validations.append(Validation(self.step, **result.row()))
        return self.validations[-1]

    def _validation_due(self) -> bool:
        """Whether this step ends training or another `validate_every` epochs; the same on all ranks."""
        if self.finished:
            return True
        interval = self.config.validate_every * len(self.images) / self.images_per_step
        return interval > 0 and self.step // interval > (self.step - 1) // interval

    @property
    def complete(self) -> bool:
        """Whether all steps are done and the network is calibrated on validation classes."""
        return self.finished and (self.calibration is not None or self.validation is None)

    def calibrate(self) -> None:
        """After the last step, calibrate the network on the validation classes."""
        if self.finished and not self.complete and self.validation is not None:
            tau = 1.0 if self.classifier is None else self.model.tau  # as the base will have it
            self.calibration = self.validation.calibration(self.model.network, tau).document()

    def facts(self) -> TrainingFacts:
        """The progress of the run and its results so far."""
        return TrainingFacts(
            step=self.step,
            steps=self.steps,
            seconds=self.seconds,
            device=str(self.device),
            images_per_second=self.step * self.images_per_step / max(self.seconds, 1e-9),
            processes=world_size(),
            threads=torch.get_num_threads(),
            loss=self.loss,
            accuracy=self.accuracy,
            tau=self.tau,
            validation=tuple(self.validations),
            calibration=self.calibration,
        )

    def base(self) -> BaseNetwork:
        """The current base network."""
        network, classifier = self.model.network, self.classifier
        return BaseNetwork.from_training(network, classifier, self.describe(), self._own(), self.mean_direction)

    @property
    def classifier(self) -> CosineClassifier | None:
        """The learned class weights, if the system has any."""
        return self.model.classifier if isinstance(self.model, StageOne | DynamicFewShot) else None

    @property
    def _rotation_head(self) -> RotationHead | None:
        return self.model.rotation if isinstance(self.model, StageOne) else None

    def _own(self) -> dict[str, Tensor]:
        """The tensors that a system learns in addition to the network."""
        return {} if isinstance(self.model, StageOne) else dict(self.model.own.state_dict())

    def describe(self) -> BaseDescription:
        """The description of the current base network."""
        return dataclasses.replace(self.description, training=self.facts())

    def save(self, out: Path) -> None:
        """Write the checkpoint; while training is unfinished, it includes the optimiser's state."""
        further = {} if self.finished else optimizer_tensors(self.optimizer)
        if (head := self._rotation_head) is not None and not self.finished:
            further |= prefixed("rotation", dict(head.state_dict()))
        if self.mean_direction is not None:
            further |= {MEAN_DIRECTION: self.mean_direction}
        if rank() == 0:
            further |= prefixed("method", self._own())
            save_base(out, self.model.network, self.classifier, self.describe(), further)

    def restore(self, saved: TrainingFacts, tensors: Mapping[str, Tensor], out: Path) -> None:
        """Continue from a checkpoint; the inverse of `save`."""
        load_weights(self.model.network, self.classifier, tensors, out)
        if not isinstance(self.model, StageOne):
            load_own(self.model, part("method", tensors), str(out))
        if saved.finished and (mean := tensors.get(MEAN_DIRECTION)) is not None:
            self.mean_direction = mean.float()
        if not saved.finished:
            load_optimizer(self.optimizer, tensors)
            if (head := self._rotation_head) is not None:
                head.load_state_dict(part("rotation", tensors))
        self.step, self.seconds = saved.step, saved.seconds
        self.loss, self.accuracy, self.tau = saved.loss, saved.accuracy, saved.tau
        self.validations, self.calibration = list(saved.validation), saved.calibration
