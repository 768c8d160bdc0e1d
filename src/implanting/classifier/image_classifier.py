"""`ImageClassifier`: learn to classify from a few images of each class.

This is the border between the user's types (paths, PIL images, arrays, labels of any kind) and ours (tensors and class
numbers). The command line uses this class directly; `FewShotClassifier` (`estimator.py`) adds scikit-learn's bases.
"""

import copy
import dataclasses
import inspect
import warnings
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from implanting.base import BaseNetwork, load_base
from implanting.classifier.files import read_classifier, save_classifier
from implanting.classifier.labels import Answer, Answering, Labels, as_labels, class_numbers, is_like
from implanting.classifier.learned import HeldOut, Learned, prints_of
from implanting.classifier.learning import fitted_again, learn, learn_head, way_of
from implanting.classifier.methods import MethodChoice, settings_of
from implanting.config import (
    ClassifierConfig,
    ImplantConfig,
    InferenceConfig,
    QueryPooling,
    SupportPooling,
    require,
    require_side,
)
from implanting.errors import CheckpointError, ConfigError, DataError, ImageError, ImplantsKept
from implanting.heatmap import Explanation, MapKind
from implanting.images import BATCH, Failure, ImageSource, decode_batches, list_sources
from implanting.runtime import Progress, choose_device, seed_from, silent

CONFIG, IMPLANTS, POOLING = ClassifierConfig(), ImplantConfig(), InferenceConfig()

HEADS = "auto", "logistic", "prototypes"


def _noting(batches: Iterator[UInt8[Tensor, "_ _ _ 3"]], prints: set[int]) -> Iterator[UInt8[Tensor, "_ _ _ 3"]]:
    """Yield the batches unchanged while collecting the hash of each image."""
    for images in batches:
        prints.update(prints_of(images))
        yield images


Own = TypeVar("Own", bound="ImageClassifier")
"""`ImageClassifier` or a subclass."""


class ImageClassifier:
    """Classify images from a few examples of each class; `FewShotClassifier` documents parameters and attributes.

    scikit-learn is imported only to raise its `NotFittedError`, because it takes longer to load than PyTorch.
    """

    learned_: Learned
    """Everything that was learned; the other learned attributes are views of it."""

    def __init__(
        self,
        base: str | Path | BaseNetwork = CONFIG.base,
        *,
        head: Literal["auto", "logistic", "prototypes"] = CONFIG.head,
        method: MethodChoice = CONFIG.method,
        implants: Literal["auto"] | bool = CONFIG.implants,
        unknown: Hashable | None = CONFIG.unknown,
        refuse: float = CONFIG.refuse,
        keep_supports: bool = CONFIG.keep_supports,
        image_size: int | None = CONFIG.image_size,
        support_pooling: SupportPooling = "gap",
        query_pooling: QueryPooling | None = None,
        random_state: Any = 0,
        device: str = "auto",
        implant_channels: int = IMPLANTS.implant_channels,
        implant_epochs: int = IMPLANTS.implant_epochs,
        implant_learning_rate: float = IMPLANTS.implant_learning_rate,
        implant_share: float | None = IMPLANTS.implant_share,
    ) -> None:
        self.base = base
        self.head = head
        self.method = method
        self.implants = implants
        self.unknown = unknown
        self.refuse = refuse
        self.keep_supports = keep_supports
        self.image_size = image_size
        self.support_pooling = support_pooling
        self.query_pooling = query_pooling
        self.random_state = random_state
        self.device = device
        self.implant_channels = implant_channels
        self.implant_epochs = implant_epochs
        self.implant_learning_rate = implant_learning_rate
        self.implant_share = implant_share

    def fit(self: Own, X: Any, y: Labels, *, progress: Progress = silent) -> Own:  # noqa: N803 (scikit-learn's name)
        """Learn classes from images and their labels, discarding any earlier fit."""
        sources = list_sources(X)
        labels = as_labels(y, len(sources))
        classes = np.unique(labels)
        self.check_settings(classes)
        base = self.base if isinstance(self.base, BaseNetwork) else load_base(self.base)
        base.require_features()
        size = self.image_size or min(base.preprocessing.image_size)
        base.map_size(size, size)
        batches = (batch.images for batch in decode_batches(sources, size, progress=progress, doing="learning"))
        self._learn(base.to(str(choose_device(self.device))), batches, classes, class_numbers(labels, classes))
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The known labels, sorted."""
        return self.learned_.classes

    @property
    def base_(self) -> BaseNetwork:
        """The base network this classifier was fitted on."""
        return self.learned_.base

    @property
    def supports_(self) -> tuple[UInt8[Tensor, "image height width 3"], Int[Tensor, " image"]] | None:
        """The examples and their class numbers if they were kept, else None."""
        return self.learned_.supports

    @property
    def held_out_(self) -> HeldOut | None:
        """The prediction for each example by a classifier fitted without it; None if not available."""
        self.check_fitted()
        return self.learned_.held_out

    def refit(self: Own) -> Own:
        """Train again on all kept examples, including those added later."""
        self.check_fitted()
        if self.learned_.supports is None:
            raise ConfigError("refit needs the examples, which were not kept: fit with `keep_supports`")
        images, labels = self.learned_.supports
        self._learn(self.base_, iter(images.split(BATCH)), self.classes_, labels)
        return self

    def check_fitted(self) -> None:
        """Raise scikit-learn's `NotFittedError` if nothing was learned yet."""
        if not hasattr(self, "learned_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit(images, labels) first")

    def check_settings(self, classes: np.ndarray) -> None:
        """Raise an error for invalid settings, or if there are fewer than two classes."""
        require(0 <= self.refuse < 1, "refuse", self.refuse, "from 0 to below 1")
        require(self.head in HEADS, "head", self.head, "auto, logistic or prototypes")
        require(self.implants in ("auto", True, False), "implants", self.implants, "auto, True or False")
        require_side(self.image_size)
        poolings = get_args(SupportPooling)
        require(self.support_pooling in poolings, "support_pooling", self.support_pooling, "gap, gmp or gem")
        settings_of(self.method, self.head, self.implants)
        self._implant_config()
        query_poolings = (None, *get_args(QueryPooling))
        require(self.query_pooling in query_poolings, "query_pooling", self.query_pooling, "gap, gmp, gem or dense")
        if len(classes) < 2:
            found = f"one class ({classes.tolist()[0]!r})" if len(classes) else "no image"
            raise DataError(f"there is {found}; a classifier needs images of two classes or more")
        if self.unknown is not None and self.unknown in classes.tolist():
            raise ConfigError(f"unknown={self.unknown!r} is one of the classes: choose another label")

    def _implant_config(self) -> ImplantConfig:
        return ImplantConfig(
            self.implant_channels, self.implant_epochs, self.implant_learning_rate, implant_share=self.implant_share
        )

    def _learn(
        self,
        base: BaseNetwork,
        batches: Iterator[UInt8[Tensor, "image height width 3"]],
        classes: np.ndarray,
        labels: Int[Tensor, " image"],
    ) -> None:
        counts = labels.bincount()
        views = base.usage.support_views(int(counts.median()))
        pooling = InferenceConfig(self.support_pooling, self.query_pooling, views)
        head, implants = settings_of(self.method, self.head, self.implants)
        way = way_of(head, implants, base, counts, pooling)
        images, prints = None, set[int]()
        batches = _noting(batches, prints)
        if self.keep_supports:
            images = torch.cat(list(batches))
            batches = iter(images.split(BATCH))
        if way.head:
            learned = learn_head(base, batches, labels, self.method)
        else:
            config = self._implant_config()
            seed = seed_from(self.random_state)
            learned = learn(base, pooling, config if way.implants else None, batches, labels, seed)
        supports = None if images is None else (images, labels)
        self.learned_ = dataclasses.replace(learned, classes=classes, supports=supports, prints=frozenset(prints))

    def add_class(self: Own, label: Hashable, images: Any) -> Own:
        """Learn one more class.

        A head is fitted to all classes again from its stored readings, which takes a fraction of a second.
        Prototypes of other classes, and implants, do not change.
        """
        self.check_fitted()
        known = self.classes_.tolist()
        if label in known:
            raise ConfigError(f"class {label!r} is there already: use add_images for further images of it")
        if label is not None and label == self.unknown:
            raise ConfigError(f"class {label!r} cannot be added: it is the label for images of no class (unknown)")
        if not is_like(label, self.classes_):
            raise DataError(
                f"class {label!r} is not of the kind of the others, such as {known[0]!r}: name it like them"
            )
        sources = list_sources(images)
        classes = np.unique(np.append(self.classes_, [label]))
        self._add(sources, np.full(len(sources), label, classes.dtype), classes)
        return self._changed()

    def add_images(self: Own, images: Any, labels: Labels) -> Own:
        """Learn from further images of known classes; a head is fitted again, implants do not change."""
        self.check_fitted()
        sources = list_sources(images)
        self._add(sources, as_labels(labels, len(sources)), self.classes_)
        return self._changed()

    def _add(self, sources: list[ImageSource], labels: np.ndarray, classes: np.ndarray) -> None:
        if not sources:
            raise DataError("there is no image to add; one or more are needed")
        batches = (batch.images for batch in decode_batches(sources, self.learned_.size))
        learned = self.learned_.with_classes(classes).with_images(batches, class_numbers(labels, classes))
        self.learned_ = fitted_again(learned, self.method)

    def remove_class(self: Own, label: Hashable) -> Own:
        """Remove a class; a head is fitted again to the others, other prototypes and implants do not change."""
        self.check_fitted()
        removed = int(class_numbers(np.array([label]), self.classes_))
        if len(self.classes_) <= 2:
            raise ConfigError(f"class {label!r} cannot be removed: {len(self.classes_)} are left and two are needed")
        self.learned_ = fitted_again(self.learned_.without(removed), self.method)
        return self._changed()

    def _changed(self: Own) -> Own:
        if self.learned_.implants is not None:
            warnings.warn(
                "the implants, and the calibration of probabilities, stay as they were for the earlier classes, so "
                "probabilities are less reliable; refit() trains and calibrates again",
                ImplantsKept,
                stacklevel=3,
            )
        return self

    def predict(self, X: Any, *, progress: Progress = silent) -> np.ndarray:  # noqa: N803 (likewise)
        """Return the class of each image, or `unknown` (if that is set) for images that fit no class."""
        now = self._as_it_is()
        probabilities, scores = now._classified(X, progress)
        return now._answering.labels(probabilities, scores)

    def predict_proba(self, X: Any, *, progress: Progress = silent) -> Float[np.ndarray, "image way"]:  # noqa: N803 (likewise)
        """Return the probability of each class, in the order of `classes_`; `unknown` is not among them."""
        return self._as_it_is()._classified(X, progress)[0].numpy()

    def open_set_score(self, X: Any, *, progress: Progress = silent) -> Float[np.ndarray, " image"]:  # noqa: N803 (likewise)
        """Return one score per image; the higher it is, the less the image fits any class."""
        return self._as_it_is()._classified(X, progress)[1].numpy()

    def answers(
        self, images: Any, *, top: int = 1, skip_bad: bool = False, progress: Progress = silent
    ) -> tuple[list[Answer], list[Failure]]:
        """Return one `Answer` per image with its `top` most probable classes, and the failures to decode."""
        answers: list[Answer] = []
        failures: list[Failure] = []
        for each in self.answer_each(images, top=top, progress=progress):
            if isinstance(each, Answer):
                answers.append(each)
            elif skip_bad:
                failures.append(each)
            else:
                raise ImageError(each.reason)
        return answers, failures

    def answer_each(self, images: Any, *, top: int = 1, progress: Progress = silent) -> Iterator[Answer | Failure]:
        """Yield the answer to each image, or the reason it failed to decode, as soon as its batch is done."""
        now = self._as_it_is()
        sources, answering = list_sources(images), now._answering
        for batch in decode_batches(sources, now.learned_.size, skip_bad=True, progress=progress, doing="classifying"):
            each: dict[int, Answer | Failure] = {failure.index: failure for failure in batch.failures}
            if len(batch.images):
                probabilities, scores = now.learned_.answers(batch.images)
                labels, rankings = answering.labels(probabilities, scores), answering.rankings(probabilities, top)
                seen = [one in self.learned_.prints for one in prints_of(batch.images)]
                for index, *answer in zip(
                    batch.indices.tolist(), labels.tolist(), rankings, scores.tolist(), seen, strict=True
                ):
                    each[index] = Answer(sources[index], *answer)
            yield from (each[index] for index in sorted(each))

    def _as_it_is(self: Own) -> Own:
        """A shallow copy whose answers stay consistent while another thread changes the classes."""
        self.check_fitted()
        return copy.copy(self)

    @property
    def _answering(self) -> Answering:
        return Answering(self.classes_, self.learned_.calibration, self.unknown, self.refuse)

    def _classified(
        self, images: Any, progress: Progress
    ) -> tuple[Float[Tensor, "image way"], Float[Tensor, " image"]]:
        self.check_fitted()
        batches = decode_batches(list_sources(images), self.learned_.size, progress=progress, doing="classifying")
        parts = [self.learned_.answers(batch.images) for batch in batches]
        empty = torch.empty(0, len(self.classes_)), torch.empty(0)
        probabilities, scores = zip(empty, *parts, strict=True)
        return torch.cat(probabilities), torch.cat(scores)

    def score(self, X: Any, y: Labels, sample_weight: Any = None) -> float:  # noqa: N803 (likewise)
        """Return the share of correctly classified images; `unknown` is correct only if it is the image's label."""
        answers = self.predict(X)
        return float(np.average(answers == as_labels(y, len(answers)), weights=sample_weight))

    def explain(
        self,
        image: ImageSource,
        label: Hashable | None = None,
        *,
        top: int = 1,
        kind: MapKind | None = None,
        finer: int = 1,
    ) -> Explanation:
        """Map the locations at which an image resembles the named class, or each of the `top` most probable classes.

        `kind` is "evidence", the contribution of each location to the score of a head (the default with a head);
        "similarity", its cosine with the class (the default with prototypes); or "softmax", the probability of the
        class at the location. The network sees the image at `finer` times the usual size, which may be up to 4096 px.
        """
        self.check_fitted()
        require(top >= 1, "top", top, "1 or more")
        require(kind is None or kind in get_args(MapKind), "kind", kind, f"one of {', '.join(get_args(MapKind))}")
        if label is not None:
            require(top == 1, "top", top, "left out if `label` names the one class to show")
            class_numbers(np.array([label]), self.classes_)
        explanation = self.learned_.explain(image, kind, finer)
        return explanation.top(top) if label is None else explanation.only([label])

    def save(self, path: str | Path, *, slim: bool = False) -> None:
        """Write the classifier as one safe file; a slim file refers to its base network instead of containing it."""
        self.check_fitted()
        settings = {name: getattr(self, name) for name in inspect.signature(ImageClassifier).parameters}
        save_classifier(settings, self.learned_, Path(path), slim)

    @classmethod
    def load(
        cls: type[Own], path: str | Path, *, base: str | Path | BaseNetwork | None = None, device: str = "auto"
    ) -> Own:
        """Load a classifier from a file; the base of a slim file is found by name unless `base` is given."""
        settings, learned = read_classifier(Path(path), base, device)
        try:
            classifier = cls(**settings)
            classifier.check_settings(learned.classes)
        except (TypeError, ValueError, ConfigError) as error:
            raise CheckpointError(
                f"{path} is damaged: its settings are not those of a classifier ({error}); copy it again or fit again"
            ) from error
        classifier.learned_ = learned
        return classifier
