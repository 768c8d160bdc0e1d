"""EfficientNet-Lite (Tan & Le's EfficientNet without squeeze-and-excitation and with ReLU6, published in 2020).

The choices made, where they are not obvious: the weights were trained in TensorFlow, so batch norm adds 1e-3 to
variances, and a convolution of stride 2 pads as "SAME" does, on an even map one row less before than after. A larger
network of the family has more channels and more blocks per stage, rounded as TensorFlow's code does; the first and the
last convolution, and the number of blocks of the first and the last stage, are the same in all of them.
Phi is the published map with each channel divided by the root of its mean, since prototypes of roots were better on
photos (`docs/lab-log.md`): a few strong channels no longer outweigh all others in the cosine.

Only the last 1x1 convolution, the head, has implants: in the last block as well they cost thirteen times as much
without a gain that could be measured (`docs/lab-log.md`).
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from implanting.errors import ConfigError, ImageTooSmall
from implanting.networks.tail import ImplantedLayer, Tail

EPSILON = 1e-3
"""Added to variances in batch norm."""

SHRINK = 32
"""Pixels, along each side, of one location: five convolutions have stride 2."""

STEM, DIM = 32, 1280
"""Channels of the first convolution and of phi; neither is scaled in the Lite variants."""

MIDDLE_STAGE = 5
"""The stage whose first block gives the middle reading: the first one at the resolution of phi."""

TEMPERATURE = 2.0
"""Divides the logits of ImageNet's classifier before they are read."""

WEAK = 0.1
"""Added to a channel's mean under the root, so that neither a nearly silent channel nor its rounding is amplified."""

TINY = 1e-12
"""A smaller root is replaced by this value before it divides."""

Images = Float[Tensor, "image channel height width"]


class Stage(NamedTuple):
    """Blocks of one kind; the first of them has the stride."""

    blocks: int
    kernel: int
    stride: int
    expansion: int
    channels: int


class LiteVariant(NamedTuple):
    """A network of the family: how many times Lite0's channels and blocks it has, and the images it was trained on."""

    width: float
    depth: float
    image_size: int

    def stages(self) -> tuple[Stage, ...]:
        """Its stages; the first and the last have as many blocks as Lite0's."""
        inner = range(1, len(STAGES) - 1)
        return tuple(
            stage._replace(
                channels=_scaled_channels(stage.channels, self.width),
                blocks=math.ceil(self.depth * stage.blocks) if number in inner else stage.blocks,
            )
            for number, stage in enumerate(STAGES)
        )


def _scaled_channels(channels: int, width: float) -> int:
    """The nearest multiple of 8, or the next one if the nearest is less than nine tenths of the requested number."""
    asked = channels * width
    rounded = max(8, int(asked + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * asked else rounded + 8


LITE0 = LiteVariant(1.0, 1.0, 224)
LITE2 = LiteVariant(1.1, 1.2, 260)

STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)


class SameConvolution(nn.Conv2d):
    """A convolution with TensorFlow's "SAME" padding: of an odd number of rows, one less goes before than after."""

    def forward(self, x: Images) -> Tensor:
        return super().forward(F.pad(x, self.same_padding(x.shape)))

    def same_padding(self, shape: Sequence[int]) -> tuple[int, int, int, int]:
        """Pixels added on the left, right, top and bottom."""
        pads: list[int] = []
        for length, kernel, stride in zip(shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], strict=True):
            total = max(0, (-(-length // stride) - 1) * stride + kernel - length)
            pads += [total // 2, total - total // 2]
        left, right, top, bottom = pads
        return left, right, top, bottom


class Convolution(nn.Module):
    """A convolution with batch norm and, unless it is linear, ReLU6."""

    def __init__(
        self,
        channels_in: int,
        channels_out: int,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        linear: bool = False,
    ) -> None:
        super().__init__()
        kind, padding = (nn.Conv2d, kernel // 2) if stride == 1 else (SameConvolution, 0)
        self.conv = kind(channels_in, channels_out, kernel, stride, padding, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(channels_out, eps=EPSILON)
        self.activation = nn.Identity() if linear else nn.ReLU6()

    def forward(self, x: Images) -> Tensor:
        return cast(Tensor, self.activation(self.norm(self.conv(x))))


class InvertedBlock(nn.Module):
    """Expand by a 1x1 convolution, filter each channel by itself, project by a linear 1x1 convolution."""

    def __init__(self, channels_in: int, stage: Stage, stride: int) -> None:
        super().__init__()
        inner = stage.expansion * channels_in
        self.expand = Convolution(channels_in, inner) if stage.expansion > 1 else None
        self.depthwise = Convolution(inner, inner, stage.kernel, stride, groups=inner)
        self.project = Convolution(inner, stage.channels, linear=True)
        self.residual = stride == 1 and channels_in == stage.channels

    def forward(self, x: Images) -> Tensor:
        return self.from_filtered(x, self.filtered(x))

    def filtered(self, x: Images) -> Tensor:
        """The map between the two 1x1 convolutions."""
        return cast(Tensor, self.depthwise(self.expand(x) if self.expand is not None else x))

    def from_filtered(self, x: Images, filtered: Tensor) -> Tensor:
        """The block's output, from the map in its middle."""
        output = cast(Tensor, self.project(filtered))
        return x + output if self.residual else output


class EfficientNetLite(nn.Module):
    """phi: images to feature maps of 1280 channels; of Lite0 7x7 at 224 px, of Lite2 9x9 at 260 px."""

    class_weights: Float[Tensor, "imagenet_class dim"] | None
    class_biases: Float[Tensor, " imagenet_class"] | None

    def __init__(self, variant: LiteVariant = LITE0) -> None:
        super().__init__()
        stages = variant.stages()
        self.variant = variant
        self.dim = DIM
        self.numbers_per_pixel = stages[1].expansion * stages[0].channels / 4
        """Size of the largest map, in numbers per pixel of the image: the second block's, at half the sides."""
        self.identity_text = repr(WEAK)
        """phi is not the published map."""
        self.thread_safe = True
        self.stem = Convolution(3, STEM, 3, 2)
        blocks, channels = [], STEM
        for stage in stages:
            for number in range(stage.blocks):
                blocks.append(InvertedBlock(channels, stage, stage.stride if number == 0 else 1))
                channels = stage.channels
        self.blocks = nn.ModuleList(blocks)
        self.middle = sum(stage.blocks for stage in stages[:MIDDLE_STAGE])
        """The block whose filtered map is read: the first of its stage."""
        self.middle_channels = stages[MIDDLE_STAGE].expansion * stages[MIDDLE_STAGE - 1].channels
        self.head = Convolution(channels, DIM)
        self.tail = Tail((ImplantedLayer(0, channels, 1, activation="relu6"),))
        for name in ("class_weights", "class_biases"):  # no part of phi, so neither of its file nor of its fingerprint
            self.register_buffer(name, None, persistent=False)

    def forward(self, x: Images) -> Float[Tensor, "image dim out_height out_width"]:
        return rooted(self.published(x))

    def published(self, x: Images) -> Float[Tensor, "image dim out_height out_width"]:
        """The map as it was trained to be, whose mean ImageNet's classifier reads."""
        return self.head(self.before_head(x))

    def logits(self, mean: Float[Tensor, "image dim"]) -> Float[Tensor, "image imagenet_class"]:
        """The logits of ImageNet's classifier for the means of published maps, if the network has its weights."""
        if self.class_weights is None or self.class_biases is None:
            raise ConfigError(
                "this network came without the weights of ImageNet's classifier: load the base by its name"
            )
        return F.linear(mean, self.class_weights, self.class_biases)

    def before_head(self, x: Images) -> Tensor:
        """The map that the head and its implants read."""
        return self.middle_and_last(x)[1]

    def middle_and_last(self, x: Images) -> tuple[Tensor, Tensor]:
        """The map in the middle of the middle block, and the one that the head reads."""
        x, middle = self.stem(x), x
        for number, block in enumerate(cast(list[InvertedBlock], list(self.blocks))):
            filtered = block.filtered(x)
            middle = filtered if number == self.middle else middle
            x = block.from_filtered(x, filtered)
        return middle, x

    @property
    def reading_dims(self) -> tuple[int, ...]:
        """How many numbers each reading has."""
        classes = () if self.class_weights is None else (len(self.class_weights),)
        return self.dim, self.dim, *classes, self.middle_channels

    def readings(self, x: Images) -> list[Float[Tensor, "image _"]]:
        """The rooted mean and the maximum of the published map, and the rooted maximum of the middle map.

        In between are the rooted probabilities of ImageNet's classes, if the network has the weights for them.
        """
        middle, last = self.middle_and_last(x)
        published = self.head(last)
        mean = published.mean((2, 3))
        readings = [mean * torch.rsqrt(mean + WEAK), published.amax((2, 3))]
        if self.class_weights is not None:
            readings.append((self.logits(mean) / TEMPERATURE).softmax(1).sqrt())
        return [*readings, middle.amax((2, 3)).sqrt()]

    def reading_maps(self, x: Images) -> list[Float[Tensor, "image _ rows columns"]]:
        """Maps whose means over locations are the readings.

        A maximum is placed where it was found; the probabilities of ImageNet's classes belong to no location, so they
        are the same at each.
        """
        middle, last = self.middle_and_last(x)
        published = self.head(last)
        maps = [rooted(published), at_its_place(published)]
        if self.class_weights is not None:
            whole = (self.logits(published.mean((2, 3))) / TEMPERATURE).softmax(1).sqrt()
            maps.append(whole[:, :, None, None].expand(-1, -1, *published.shape[2:]))
        return [*maps, at_its_place(middle) * torch.rsqrt(middle.amax((2, 3), keepdim=True).clamp_min(TINY))]

    def activations(
        self, x: Images
    ) -> tuple[list[Float[Tensor, "image _ _ _"]], Float[Tensor, "image dim out_height out_width"]]:
        """The maps that the tail's layers read, and phi."""
        read = self.before_head(x)
        return [read], rooted(self.head(read))

    def map_size(self, height: int, width: int) -> tuple[int, int]:
        """The locations (rows, columns) that an image of this size gives."""
        if min(height, width) < SHRINK:
            raise ImageTooSmall(
                f"an image of {width} x {height} px is smaller than the {SHRINK} x {SHRINK} px of one location: "
                f"set `image_size` {SHRINK} or more"
            )
        return -(-height // SHRINK), -(-width // SHRINK)


def rooted(maps: Images) -> Images:
    """Divide each channel by the root of its mean over the image, so that its new mean is that root."""
    return maps * torch.rsqrt(maps.mean((2, 3), keepdim=True) + WEAK)


def at_its_place(maps: Images) -> Images:
    """Each channel's maximum where it is first found and zero elsewhere, times the number of locations."""
    flat = maps.flatten(2)
    largest = flat.max(2, keepdim=True)
    places = torch.zeros_like(flat).scatter(2, largest.indices, largest.values * flat.shape[2])
    return places.unflatten(2, maps.shape[2:])


RENAMED = {
    "_conv_stem": "stem.conv",
    "_bn0": "stem.norm",
    "_conv_head": "head.conv",
    "_bn1": "head.norm",
}
RENAMED_IN_BLOCKS = {
    "_expand_conv": "expand.conv",
    "_bn0": "expand.norm",
    "_depthwise_conv": "depthwise.conv",
    "_bn1": "depthwise.norm",
    "_project_conv": "project.conv",
    "_bn2": "project.norm",
}


def renamed(published: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The published weights of phi by our names, without those of the 1000-class classifier."""
    weights = {}
    for name, value in published.items():
        match name.split("."):
            case ["_blocks", number, part, leaf]:
                weights[f"blocks.{number}.{RENAMED_IN_BLOCKS[part]}.{leaf}"] = value
            case [part, leaf] if part in RENAMED:
                weights[f"{RENAMED[part]}.{leaf}"] = value
    return weights


def build_lite(weights: Mapping[str, Tensor], variant: LiteVariant = LITE0) -> EfficientNetLite:
    """The network with these weights of phi, made without initialising random weights first."""
    with torch.device("meta"):
        network = EfficientNetLite(variant)
    network.load_state_dict(weights, assign=True)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # torch's stubs lack it


def published_lite(published: Mapping[str, Tensor], variant: LiteVariant) -> EfficientNetLite:
    """The network with its published weights, including those of the 1000-class classifier."""
    network = build_lite(renamed(published), variant)
    network.class_weights, network.class_biases = published["_fc.weight"], published["_fc.bias"]
    return network
