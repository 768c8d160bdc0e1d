"""A fitted classifier as one safe file: its base network, implants, prototypes, classes, calibration and settings.

A slim file names its base by fingerprint instead of holding it. Nothing in a file can run code, and a base that is not
the one the classifier was fitted on is refused.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from implanting import __version__
from implanting.base import BaseNetwork
from implanting.base_file import base_document, base_from_document, load_base
from implanting.calibration import Calibration
from implanting.checkpoint import part, prefixed, read_checkpoint, write_checkpoint
from implanting.distributed import choose_device
from implanting.errors import CheckpointError, ConfigError, ImplantingError
from implanting.fitting import Fitted
from implanting.implants import implant_tensors, implants_from_tensors
from implanting.inference import PrototypeClassifier
from implanting.learning import Learned

if TYPE_CHECKING:
    from implanting.classifier import ImageClassifier

KIND = "classifier"
"""What the file of a classifier calls itself."""

SETTINGS = (
    *("implants", "unknown", "refuse", "keep_supports", "image_size", "support_pooling", "query_pooling"),
    *("random_state", "implant_channels", "implant_epochs", "implant_learning_rate"),
)
"""Parameters that a file keeps."""

Tensors = dict[str, Tensor]


def save_classifier(classifier: "ImageClassifier", path: Path, slim: bool) -> None:
    """Write a fitted classifier; a slim file refers to its base network."""
    learned, base = classifier.learned_, classifier.base_
    described, base_tensors = (None, {}) if slim else base_document(base)
    found_as = str(classifier.base) if slim and not isinstance(classifier.base, BaseNetwork) else None
    document: dict[str, Any] = {
        "classes": plain_labels(classifier.classes_),
        "dtype": classifier.classes_.dtype.str,
        "settings": plain_settings(classifier),
        "image_size": classifier.size_,
        "classify": vars(learned.fitted.classify),
        "calibration": learned.calibration.document(),
        "support_views": learned.support_views,
        "base": {"name": base.name, "fingerprint": base.fingerprint, "document": described, "found_as": found_as},
        "code_version": __version__,
    }
    tensors = {"prototypes": learned.prototypes, "counts": learned.counts}
    tensors |= prefixed("base", base_tensors)
    if learned.fitted.implants is not None:
        document["implant_sizes"] = learned.fitted.implants.sizes
        tensors |= prefixed("implants", implant_tensors(learned.fitted.implants))
    if classifier.supports_ is not None:
        tensors |= dict(zip(("supports.images", "supports.labels"), classifier.supports_, strict=True))
    document["digest"] = digest(tensors)
    write_checkpoint(path, KIND, document, tensors)


def digest(tensors: Tensors) -> str:
    """SHA-256 of what was learned; the base network has its fingerprint."""
    learnt = {name: value for name, value in tensors.items() if not name.startswith("base.")}
    content = hashlib.sha256()
    for name in sorted(learnt):
        content.update(name.encode() + learnt[name].contiguous().numpy().tobytes())
    return content.hexdigest()


def plain_labels(classes: np.ndarray) -> list[Any]:
    """Labels as JSON has them."""
    if classes.dtype.kind not in "UiubO" or not all(isinstance(label, str | int) for label in classes.tolist()):
        raise ConfigError("only strings and integers can be saved as labels: use one of these")
    return classes.tolist()


def plain_settings(classifier: "ImageClassifier") -> dict[str, Any]:
    """Parameters as JSON has them; a source of random numbers other than a seed is not kept."""
    settings = {name: getattr(classifier, name) for name in SETTINGS}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}
    if not isinstance(plain["unknown"], str | int | None):
        raise ConfigError(f"unknown={plain['unknown']!r} cannot be saved: use a string or an integer")
    return plain if isinstance(plain["random_state"], int) else {**plain, "random_state": None}


def read_classifier(
    path: Path, base: str | Path | BaseNetwork | None = None, device: str = "auto"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters of a saved classifier, and what it had learnt: all that makes it ready to predict."""
    computing_on = str(choose_device(device))
    document, tensors = read_checkpoint(path, KIND)
    try:
        if document["digest"] != digest(tensors):
            raise CheckpointError(f"{path} is damaged: what was learned is not what was saved; copy it anew")
        network = find_base(path, document["base"], part("base", tensors), base).to(computing_on)
        named = base or document["base"]["found_as"] or network
        kept, supports = document["settings"], part("supports", tensors)
        if strange := set(kept) - set(SETTINGS):
            raise ValueError(f"there is no setting {min(strange)}")
        return {"base": named, "device": device, **kept}, {
            "base_": network,
            "size_": int(document["image_size"]),
            "classes_": np.array(document["classes"], dtype=document["dtype"]),
            "learned_": learned_from(network, document, tensors),
            "supports_": (supports["images"], supports["labels"]) if supports else None,
        }
    except ImplantingError:  # says what is wrong already
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"{path} is damaged: its description and its tensors do not fit ({error!r}); copy it anew or fit again"
        ) from error


def learned_from(base: BaseNetwork, document: Mapping[str, Any], tensors: Tensors) -> Learned:
    """What was learned, from a file's parts."""
    implants = None
    if "implant_sizes" in document:
        sizes = tuple((int(rows), int(columns)) for rows, columns in document["implant_sizes"])
        if base.tail is None:
            raise ValueError("the base network has no description of implanted layers")
        implants = implants_from_tensors(base.tail, sizes, part("implants", tensors))
    fitted = Fitted(tensors["prototypes"][None], PrototypeClassifier(**document["classify"]), implants)
    if not len(tensors["prototypes"]) == len(tensors["counts"]) == len(document["classes"]):
        raise ValueError("as many prototypes as classes are needed")
    calibration, views = Calibration.from_document(document["calibration"]), document.get("support_views", 1)
    return Learned(base, fitted, tensors["counts"], calibration, int(views))


def find_base(
    path: Path, described: Mapping[str, Any], tensors: Tensors, given: str | Path | BaseNetwork | None
) -> BaseNetwork:
    """The base in the file, or the one given, or the one of that name; in any case that of the fingerprint."""
    if described["document"] is not None and given is None:
        base = base_from_document(described["document"], tensors)
        wrong = f"{path} is damaged: its base network is not the one it was fitted on (fingerprint); copy it anew"
    else:
        base = named_base(path, described, given)
        wrong = (
            f"{path} was fitted on {described['name']} ({described['fingerprint'][:12]}), and this base is another "
            f"({base.name}, {base.fingerprint[:12]}): name the right one with --base"
        )
    if base.fingerprint != described["fingerprint"]:
        raise CheckpointError(wrong)
    return base


def named_base(path: Path, described: Mapping[str, Any], given: str | Path | BaseNetwork | None) -> BaseNetwork:
    """The base of a slim file."""
    if isinstance(given, BaseNetwork):
        return given
    try:
        return load_base(given or described["found_as"] or described["name"])
    except CheckpointError as error:
        raise CheckpointError(
            f"{path} is slim and needs its base network {described['name']} ({described['fingerprint'][:12]}), "
            f"which is missing: name its file with --base ({error})"
        ) from error


def describe_classifier(classifier: "ImageClassifier") -> dict[str, str]:
    """What people want to know first."""
    learned, names = classifier.learned_, list(map(str, classifier.classes_.tolist()))
    counts = learned.counts.tolist()
    implants = learned.fitted.implants
    calibrated = {
        "supports": "from its own images",
        "base": "from the base's validation images",
        "nothing": "not calibrated",
    }
    images = "not kept" if classifier.supports_ is None else f"{len(classifier.supports_[1])} kept in the file"
    return {
        "classes": f"{len(names)}: {', '.join(names)}",
        "images a class": f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else str(counts[0]),
        "support images": images,
        "implants": "none" if implants is None else f"{implants.layers[-1].gamma.shape[-1]} channels",
        "pooling": f"{learned.fitted.classify} (support/query)",
        "probabilities": calibrated[learned.calibration.told_by],
        "unknown": "never answered" if classifier.unknown is None else f"{classifier.unknown!r}, {classifier.refuse:g}",
        "image size": f"{classifier.size_} px",
    }
