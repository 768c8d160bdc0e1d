"""The embedding networks: from an image to phi, a map of features, and to the intermediate maps that implants read.

A network is a torch module with a description of its implanted layers (`tail`). Weights, preprocessing and files belong
to `base`.
"""

from implanting.networks.efficientnet import (
    LITE0,
    LITE2,
    EfficientNetLite,
    LiteVariant,
    build_lite,
    published_lite,
)
from implanting.networks.frozen import device_of, folded, quickened
from implanting.networks.own_module import ImplantedModule, ModuleNetwork
from implanting.networks.phi import Embedding
from implanting.networks.readings import reading_dims, reading_maps, readings
from implanting.networks.resnet12 import NETWORKS, Network, build_network
from implanting.networks.side_by_side import SideBySide
from implanting.networks.tail import Activation, ImplantedLayer, Sizes, Tail

__all__ = [
    "LITE0",
    "LITE2",
    "NETWORKS",
    "Activation",
    "EfficientNetLite",
    "Embedding",
    "ImplantedLayer",
    "ImplantedModule",
    "LiteVariant",
    "ModuleNetwork",
    "Network",
    "SideBySide",
    "Sizes",
    "Tail",
    "build_lite",
    "build_network",
    "device_of",
    "folded",
    "published_lite",
    "quickened",
    "reading_dims",
    "reading_maps",
    "readings",
]
