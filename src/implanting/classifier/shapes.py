"""The tensors of a saved classifier against its classes, its base network and each other.

All of it is checked here, before anything is computed with them: the type and the shape of each tensor, which of them
belong together, and the range of numbers that are places in something else.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from implanting.base import BaseNetwork

Shape = tuple[int | str, ...]


class Needed(NamedTuple):
    """What a tensor must be; a length that has a name is the same wherever the name occurs."""

    dtype: torch.dtype
    shape: Shape


def check_shapes(
    base: BaseNetwork, classes: int, size: int, views: int, flat: bool, implanted: bool, tensors: Mapping[str, Tensor]
) -> None:
    """A `ValueError` that says what is wrong with the tensors; `flat` prototypes have a vector per location."""
    needed = _implants(base, tensors) if implanted else {}
    width = base.network.dim + (_channels(tensors) if implanted else 0)
    locations = base.map_size(size, size) if flat else (1, 1)
    read = sum(base.reading_dims)
    headed = any(name.startswith("head.") for name in tensors)
    needed |= {
        "prototypes": Needed(torch.float32, (classes, read if headed else width * locations[0] * locations[1])),
        "counts": Needed(torch.int64, (classes,)),
        "prints": Needed(torch.int64, ("print",)),
        "supports.images": Needed(torch.uint8, ("support", size, size, 3)),
        "supports.labels": Needed(torch.int64, ("support",)),
        "head.class_weights": Needed(torch.float32, (classes, read)),
        "head.bias": Needed(torch.float32, (classes,)),
        "head.centre": Needed(torch.float32, (read,)),
        "head.spread": Needed(torch.float32, (read,)),
        "readings.vectors": Needed(torch.float16, ("reading", views, read)),
        "readings.labels": Needed(torch.int64, ("reading",)),
        "readings.numbers": Needed(torch.int64, ("reading",)),
        "held_out.numbers": Needed(torch.int64, ("example",)),
        "held_out.labels": Needed(torch.int64, ("example",)),
        "held_out.probabilities": Needed(torch.float32, ("example", classes)),
    }
    found = {name: tensor for name, tensor in tensors.items() if not name.startswith("base.")}
    _check_names(found, needed, implanted, headed)
    _check_each(found, needed)
    for name, low, high in _ranges(classes):
        if name in found and found[name].numel() and not low <= found[name].min() <= found[name].max() <= high:
            raise ValueError(
                f"{name} has numbers from {found[name].min()} to {found[name].max()}, and needs {low} to {high}"
            )
    for name in ("readings.labels", "supports.labels"):
        if name in found and int(found[name].bincount(minlength=classes).min()) == 0:
            raise ValueError(f"{name} has nothing of some classes")


def _check_names(found: Mapping[str, Tensor], needed: Mapping[str, Needed], implanted: bool, headed: bool) -> None:
    parts = {name.partition(".")[0] for name in found} | {"prototypes", "counts"}
    parts |= {"implants"} if implanted else set()
    parts |= {"head", "readings"} if headed else set()
    if strange := sorted(set(found) - set(needed)):
        raise ValueError(f"{strange[0]} belongs to nothing that is described")
    if missing := sorted(name for name in set(needed) - set(found) if name.partition(".")[0] in parts):
        raise ValueError(f"{missing[0]} is missing")


def _check_each(found: Mapping[str, Tensor], needed: Mapping[str, Needed]) -> None:
    lengths: dict[int | str, int] = {}
    for name, tensor in found.items():
        dtype, shape = needed[name]
        fits = tensor.dtype == dtype and tensor.dim() == len(shape)
        for length, wanted in zip(tensor.shape, shape, strict=False):
            fits = fits and length == (wanted if isinstance(wanted, int) else lengths.setdefault(wanted, length))
        if not fits:
            known = tuple(lengths.get(length, length) if tensor.dim() == len(shape) else length for length in shape)
            raise ValueError(
                f"{name} is {_in_words(tensor.dtype, tensor.shape)}, and needed is {_in_words(dtype, known)}"
            )


def _ranges(classes: int) -> Iterator[tuple[str, int, int]]:
    """Tensors whose numbers are places or shares, with the least and the greatest."""
    most = torch.iinfo(torch.int64).max
    yield "counts", 1, most
    for part in ("supports", "readings", "held_out"):
        yield f"{part}.labels", 0, classes - 1
    for part in ("readings", "held_out"):
        yield f"{part}.numbers", 0, most - 2**32
    yield "held_out.probabilities", 0, 1


def _channels(tensors: Mapping[str, Tensor]) -> int:
    """Of each implanted layer."""
    gamma = tensors.get("implants.0.gamma")
    if gamma is None or gamma.dim() != 4:
        raise ValueError("implants.0.gamma is missing or not of the shape [1, 1, 1, channels]")
    return gamma.shape[-1]


def _implants(base: BaseNetwork, tensors: Mapping[str, Tensor]) -> dict[str, Needed]:
    if base.tail is None:
        raise ValueError("the base network has no description of implanted layers")
    needed: dict[str, Needed] = {}
    channels = _channels(tensors)
    for number, layer in enumerate(base.tail.layers):
        taps = layer.kernel**2 * channels
        shapes: dict[str, Shape] = {"base_weight": (1, layer.channels, taps)}
        if layer.below is not None:
            shapes["implant_weight"] = (1, channels, taps)
        shapes |= dict.fromkeys(("gamma", "beta", "variance", "mean"), (1, 1, 1, channels))
        needed |= {f"implants.{number}.{name}": Needed(torch.float32, shape) for name, shape in shapes.items()}
    return needed


def _in_words(dtype: torch.dtype, shape: Sequence[int | str]) -> str:
    return f"{str(dtype).removeprefix('torch.')} [{', '.join(map(str, shape))}]"
