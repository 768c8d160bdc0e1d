"""A user's own torch module as an embedding network.

It must end in a map [n, d, h, w] or in tokens [n, tokens, d] (a vision transformer), of which the first few may not be
locations. The module is a black box: the user names the convolutions that get implants, and hooks record the maps that
these read.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from implanting.errors import ConfigError, ImageTooSmall, ImplantingError
from implanting.networks.frozen import watched
from implanting.networks.tail import Activation, ImplantedLayer, Tail, check_fit

Images = Float[Tensor, "image channel height width"]


@dataclass(frozen=True)
class ImplantedModule:
    """A convolution of your own network that gets an implant. `below` and `adds` are indices into the list of these."""

    name: str
    """Its name in the network's `named_modules()`, such as "layer4.1.conv2"."""
    activation: Activation | None = None
    """The activation after its batch norm and after the sum."""
    below: int | None = None
    """The entry whose output it also reads; None for the first."""
    adds: int | None = None
    """The entry whose output is added before the activation: a residual connection."""
    pool: int = 1
    """Side of the max-pool that follows; 1 means that there is none."""


class ModuleNetwork(nn.Module):
    """phi: images to feature maps, by a module that knows nothing of this project."""

    def __init__(
        self,
        module: nn.Module,
        image_size: tuple[int, int],
        tail: Sequence[ImplantedModule] = (),
        prefix_tokens: int = 0,
        method: str = "forward",
    ) -> None:
        super().__init__()
        self.module = module.eval()
        self.prefix_tokens, self.method = prefix_tokens, method
        self.implanted = [(part, _find_convolution(module, part.name)) for part in tail]
        self.captured: list[nn.Module] = []
        self.tail: Tail | None = None
        self.known_sizes: dict[tuple[int, int], tuple[int, int]] = {}
        numbers: list[int] = []

        def count(_layer: nn.Module, _inputs: Any, output: Any) -> None:
            numbers.append(output.numel() if isinstance(output, Tensor) else 0)

        with watched(module.modules(), count):
            self.dim = self.probe(*image_size).shape[1]
        self.numbers_per_pixel = max(3.0, max(numbers, default=0) / math.prod(image_size))
        """Size of the largest intermediate map, in numbers per pixel of the image."""
        self.thread_safe = False
        """Unknown for a module of the user's, so not assumed."""

    @property
    def identity_text(self) -> str:
        """The module's layers: other layers may have the same weights."""
        return repr(self)

    @torch.inference_mode()
    def probe(self, height: int, width: int) -> Float[Tensor, "1 dim rows columns"]:
        """phi of a black image; the first time, the maps that the named convolutions read also describe the tail."""
        parameter = next(self.module.parameters(), torch.empty(0))
        black = torch.zeros(1, 3, height, width, device=parameter.device)
        with _captured_inputs([convolution for _, convolution in self.implanted]) as inputs:
            try:
                phi = self(black)
            except ImplantingError:  # raised by us: its message already says what is wrong
                raise
            except (RuntimeError, AssertionError, ValueError) as error:
                reason = " ".join(str(error).split())[:200]
                raise ImageTooSmall(
                    f"the network does not take images of {width} x {height} px ({reason}): choose another size"
                ) from error
        if self.tail is None and self.implanted:
            self.describe_tail(inputs, phi)
        return phi

    def describe_tail(self, inputs: list[Tensor], phi: Tensor) -> None:
        """Take channels, kernels and strides from the convolutions; a map that several of them read is kept once."""
        distinct: list[Tensor] = []
        layers = []
        for (part, convolution), read in zip(self.implanted, inputs, strict=True):
            if not any(read is other for other in distinct):
                distinct.append(read)
                self.captured.append(convolution)
            layers.append(
                ImplantedLayer(
                    reads=next(number for number, other in enumerate(distinct) if other is read),
                    channels=convolution.in_channels,
                    kernel=convolution.kernel_size[0],
                    stride=convolution.stride[0],
                    below=part.below,
                    adds=part.adds,
                    activation=part.activation,
                    pool=part.pool,
                )
            )
        tail = Tail(tuple(layers))
        check_fit(tail, [(one.shape[2], one.shape[3]) for one in distinct], (phi.shape[2], phi.shape[3]))
        self.tail = tail

    def forward(self, x: Images) -> Float[Tensor, "image dim out_height out_width"]:
        output = getattr(self.module, self.method)(x.contiguous())
        return _as_map(output, x.shape[2], x.shape[3], self.prefix_tokens)

    def activations(
        self, x: Images
    ) -> tuple[list[Float[Tensor, "image _ _ _"]], Float[Tensor, "image dim out_height out_width"]]:
        """The maps that the tail's layers read, and phi."""
        with _captured_inputs(self.captured) as inputs:
            phi = self(x)
        return inputs, phi

    def map_size(self, height: int, width: int) -> tuple[int, int]:
        """The locations (rows, columns) of an image of this size, found by running one, once per size."""
        if (height, width) not in self.known_sizes:
            _, _, rows, columns = self.probe(height, width).shape
            self.known_sizes[height, width] = rows, columns
        return self.known_sizes[height, width]


def _find_convolution(module: nn.Module, name: str) -> nn.Conv2d:
    parts = dict(module.named_modules())
    if name not in parts:
        convolutions = [other for other, part in parts.items() if isinstance(part, nn.Conv2d)]
        raise ConfigError(
            f"the network has no layer '{name}'; its last convolutions are {', '.join(convolutions[-5:]) or 'none'}"
        )
    part = parts[name]
    if not isinstance(part, nn.Conv2d):
        raise ConfigError(f"layer '{name}' is a {type(part).__name__}; only nn.Conv2d can have implants")
    square = part.kernel_size[0] == part.kernel_size[1] and part.stride[0] == part.stride[1]
    if not square or part.kernel_size[0] % 2 == 0 or part.dilation != (1, 1):
        raise ConfigError(f"layer '{name}' is {part}; implants need a square odd kernel, one stride and no dilation")
    return part


@contextmanager
def _captured_inputs(modules: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """The first input of each of these modules, recorded while the block runs."""
    inputs: list[Tensor] = [torch.empty(0)] * len(modules)

    def keep(module: nn.Module, read: tuple[Tensor, ...], _output: Any) -> None:
        for number, one in enumerate(modules):
            if one is module:
                inputs[number] = read[0]

    with watched(modules, keep):
        yield inputs


def _as_map(output: Any, height: int, width: int, prefix_tokens: int) -> Float[Tensor, "image dim rows columns"]:
    """Return a map unchanged, and tokens, without the prefix, as rows and columns in the proportions of the image."""
    if isinstance(output, Tensor) and output.ndim == 4:
        return output
    if isinstance(output, Tensor) and output.ndim == 3:
        tokens = output[:, prefix_tokens:]
        rows = round((tokens.shape[1] * height / width) ** 0.5)
        if rows and tokens.shape[1] % rows == 0:
            return tokens.transpose(1, 2).unflatten(2, (rows, -1))
        raise ConfigError(
            f"{tokens.shape[1]} tokens of an image of {width} x {height} px do not form a grid: "
            f"set prefix_tokens (now {prefix_tokens}) to the number of leading tokens that are not locations"
        )
    found = f"a tensor {list(output.shape)}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
    raise ConfigError(
        f"the network returns {found}; a map [n, d, h, w] or tokens [n, tokens, d] are needed: leave out its pooling "
        'and its classifier, or name the method that returns the map, such as method="forward_features"'
    )
