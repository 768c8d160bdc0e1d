"""Save a fitted classifier as one safe file: base network, head or prototypes and implants, classes and settings.

A slim file identifies its base by fingerprint instead of containing it. Nothing in a file can run code, and a base
other than the one the classifier was fitted on is rejected.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from msgspec import Meta
from torch import Tensor

from implanting.base import BaseNetwork, base_document, base_from_document, load_base
from implanting.classifier.learned import HeldOut, Learned, Readings
from implanting.classifier.shapes import check_shapes
from implanting.config import LARGEST_SIDE, VIEWS
from implanting.dense_classification import PrototypeClassifier
from implanting.errors import CheckpointError, ConfigError, ImplantingError
from implanting.fewshot import Calibration
from implanting.head import Head
from implanting.implants import implant_tensors, implants_from_tensors
from implanting.runtime import checked, choose_device, part, prefixed, read_checkpoint, write_checkpoint
from implanting.version import __version__

KIND = "classifier"
"""The kind that a classifier's file declares."""

NOT_KEPT = frozenset({"base", "device"})
"""Settings that are not saved: the file contains or identifies its base, and the loader chooses the device."""

PARTS: dict[str, type] = {"head": Head, "readings": Readings, "held_out": HeldOut}
"""Fields of `Learned` that are groups of tensors; files of earlier versions lack them."""

Tensors = dict[str, Tensor]

Side = Annotated[int, Meta(ge=1)]

Factor = Annotated[float, Meta(ge=0, le=1e6)]
"""By which scores are multiplied: beyond this they would overflow."""

Score = Annotated[float, Meta(ge=-1e30, le=1e30)]


def save_classifier(settings: Mapping[str, Any], learned: Learned, path: Path, slim: bool) -> None:
    """Write a fitted classifier; a slim file refers to its base network."""
    base = learned.base
    described, base_tensors = (None, {}) if slim else base_document(base)
    found_as = str(settings["base"]) if slim and not isinstance(settings["base"], BaseNetwork) else None
    document: dict[str, Any] = {
        "classes": plain_labels(learned.classes),
        "dtype": learned.classes.dtype.str,
        "settings": _plain_settings(settings),
        "image_size": learned.size,
        "classify": {name: getattr(learned.classify, name) for name in StoredClassify.__dataclass_fields__},
        "calibration": learned.calibration.document(),
        "support_views": learned.support_views,
        "base": {"name": base.name, "fingerprint": base.fingerprint, "document": described, "found_as": found_as},
        "code_version": __version__,
    }
    tensors = {"prototypes": learned.prototypes, "counts": learned.counts}
    if learned.prints:
        tensors["prints"] = torch.tensor(sorted(learned.prints))
    tensors |= prefixed("base", base_tensors)
    if learned.implants is not None:
        document["implant_sizes"] = learned.implants.sizes
        if learned.implants.weight is not None:
            document["implant_weight"] = learned.implants.weight.item()
        tensors |= prefixed("implants", implant_tensors(learned.implants))
    if learned.supports is not None:
        tensors |= prefixed("supports", dict(zip(("images", "labels"), learned.supports, strict=True)))
    for name in PARTS:
        if (value := getattr(learned, name)) is not None:
            # files hold only finite numbers, so the nan rows of images that were never held out become zeros
            tensors |= prefixed(name, {key: tensor.nan_to_num(0).contiguous() for key, tensor in vars(value).items()})
    document["digest"] = digest(tensors)
    write_checkpoint(path, KIND, document, tensors)


def digest(tensors: Tensors) -> str:
    """SHA-256 of all tensors that the base's fingerprint does not cover."""
    covered = "base.network.", "base.classifier."
    learnt = {name: value for name, value in tensors.items() if not name.startswith(covered)}
    content = hashlib.sha256()
    for name in sorted(learnt):
        content.update(name.encode())
        content.update(learnt[name].contiguous().numpy().data)
    return content.hexdigest()


def plain_labels(classes: np.ndarray) -> list[Any]:
    """Return the labels as values that JSON can represent."""
    if classes.dtype.kind not in "UiubO" or not all(isinstance(label, str | int) for label in classes.tolist()):
        raise ConfigError("only strings and integers can be saved as labels: use one of these")
    return classes.tolist()


def _plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings to save, as JSON values; a `random_state` is saved only if it is an integer."""
    kept = {name: value for name, value in settings.items() if name not in NOT_KEPT}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in kept.items()}
    if not isinstance(plain["unknown"], str | int | None):
        raise ConfigError(f"unknown={plain['unknown']!r} cannot be saved: use a string or an integer")
    return plain if isinstance(plain["random_state"], int) else {**plain, "random_state": None}


@dataclass(frozen=True)
class StoredBase:
    """The entry of a document that describes the base network."""

    name: str
    fingerprint: str
    document: dict[str, Any] | None
    found_as: str | None


@dataclass(frozen=True)
class StoredClassify:
    """How supports and queries are pooled, and tau."""

    support_pooling: Literal["gap", "gmp", "gem", "flatten"]
    query_pooling: Literal["gap", "gmp", "gem", "dense", "flatten"]
    tau: Factor


@dataclass(frozen=True)
class StoredCalibration:
    """The numbers of a calibration."""

    power: Factor
    known: list[Score]
    told_by: Literal["supports", "base", "nothing"]
    usual: list[Score] = field(default_factory=list)


@dataclass(frozen=True)
class StoredSettings:
    """The types of the settings; their ranges are checked by `ImageClassifier.check_settings`."""

    method: str = "auto"
    head: Literal["auto", "logistic", "prototypes"] = "prototypes"
    implants: Literal["auto"] | bool = "auto"
    unknown: str | int | bool | None = None
    refuse: float = 0.0
    keep_supports: bool = False
    image_size: int | None = None
    support_pooling: str = "gap"
    query_pooling: str | None = None
    random_state: int | None = None
    implant_channels: int = 1
    implant_epochs: int = 0
    implant_learning_rate: float = 0.0
    implant_share: float | None = None


@dataclass(frozen=True)
class Stored:
    """The types and bounds of a document."""

    classes: Annotated[list[str | int | bool], Meta(min_length=2)]
    dtype: str
    settings: StoredSettings
    image_size: Annotated[int, Meta(ge=1, le=LARGEST_SIDE)]
    classify: StoredClassify
    calibration: StoredCalibration
    base: StoredBase
    digest: str
    support_views: Annotated[int, Meta(ge=1, le=VIEWS)] = 1
    implant_sizes: list[tuple[Side, Side]] | None = None
    implant_weight: Annotated[float, Meta(gt=0, le=1)] = 1.0


def read_classifier(
    path: Path, base: str | Path | BaseNetwork | None = None, device: str = "auto"
) -> tuple[dict[str, Any], Learned]:
    """Read a saved classifier: its settings, and everything it learned."""
    computing_on = str(choose_device(device))
    document, tensors = read_checkpoint(path, KIND, "make one with `implanting fit`")
    try:
        checked(document, Stored)
        if document["digest"] != digest(tensors):
            raise CheckpointError(f"{path} is damaged: its tensors do not match their digest; copy it again")
        network = _find_base(path, document["base"], part("base", tensors), base).to(computing_on)
        named = base or document["base"]["found_as"] or network
        settings = {"head": "prototypes", **document["settings"], "base": named, "device": device}
        return settings, _learned_from(network, document, tensors)
    except ImplantingError:  # its message is already clear
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"{path} is damaged: its description and its tensors do not fit ({_said(error)}); copy it again or "
            "fit again"
        ) from error


def _said(error: Exception) -> str:
    return str(error) if type(error) is ValueError else repr(error)


def _learned_from(base: BaseNetwork, document: Mapping[str, Any], tensors: Tensors) -> Learned:
    check_shapes(
        base,
        classes=len(document["classes"]),
        size=document["image_size"],
        views=document.get("support_views", 1),
        flat=document["classify"]["support_pooling"] == "flatten",
        implanted="implant_sizes" in document,
        tensors=tensors,
    )
    if "held_out.probabilities" in tensors:
        said = tensors["held_out.probabilities"]
        tensors["held_out.probabilities"] = torch.where(said.sum(1, keepdim=True) > 0, said, torch.nan)
    implants, supports = None, part("supports", tensors)
    if "implant_sizes" in document and base.tail is not None:
        sizes = tuple((int(rows), int(columns)) for rows, columns in document["implant_sizes"])
        weight = torch.tensor([float(document["implant_weight"])]) if "implant_weight" in document else None
        implants = implants_from_tensors(base.tail, sizes, part("implants", tensors), weight)
    return Learned(
        base=base,
        size=int(document["image_size"]),
        classes=np.array(document["classes"], dtype=document["dtype"]),
        prototypes=tensors["prototypes"],
        counts=tensors["counts"],
        classify=PrototypeClassifier(**document["classify"]),
        calibration=Calibration.from_document(document["calibration"]),
        implants=implants,
        support_views=int(document.get("support_views", 1)),
        supports=(supports["images"], supports["labels"]) if supports else None,
        prints=frozenset(tensors["prints"].tolist() if "prints" in tensors else ()),  # files of 0.1 have none
        **{name: kind(**found) for name, kind in PARTS.items() if (found := part(name, tensors))},
    )


def _find_base(
    path: Path, described: Mapping[str, Any], tensors: Tensors, given: str | Path | BaseNetwork | None
) -> BaseNetwork:
    """Take the base from the file, from the caller, or by its name, and check its fingerprint."""
    if described["document"] is not None and given is None:
        base = base_from_document(described["document"], tensors)
        wrong = f"{path} is damaged: its base network is not the one it was fitted on (fingerprint); copy it again"
    else:
        base = _named_base(path, described, given)
        wrong = (
            f"{path} was fitted on {described['name']} ({described['fingerprint'][:12]}), and this base is another "
            f"({base.name}, {base.fingerprint[:12]}): name the right one with `base`, or fit again if it has changed"
        )
    if base.fingerprint != described["fingerprint"]:
        raise CheckpointError(wrong)
    return base


def _named_base(path: Path, described: Mapping[str, Any], given: str | Path | BaseNetwork | None) -> BaseNetwork:
    if isinstance(given, BaseNetwork):
        return given
    try:
        return load_base(given or described["found_as"] or described["name"])
    except CheckpointError as error:
        raise CheckpointError(
            f"{path} is slim and needs its base network {described['name']} ({described['fingerprint'][:12]}), "
            f"which is missing: name its file with `base` ({error})"
        ) from error
