"""Settings of a classifier of one's own images, and of a command on this machine."""

from dataclasses import dataclass
from typing import Literal

from implanting.config.checking import require
from implanting.config.names import MethodName

MEMORY_BUDGET = 4 * 2**30
"""Bytes of decoded images kept in memory; a larger set is memory-mapped from a temporary file."""


@dataclass(frozen=True)
class ThreadsConfig:
    """How a command that uses only the CPU runs."""

    threads: int | None = None
    """CPU threads of this process; default: PyTorch's choice."""

    def __post_init__(self) -> None:
        require(self.threads is None or self.threads >= 1, "threads", self.threads, "1 or more")


@dataclass(frozen=True)
class RunConfig(ThreadsConfig):
    """How a command runs on this machine; the choice changes results only by rounding."""

    device: str = "auto"
    """auto (CUDA, Apple or CPU, in this order), or a PyTorch device such as cpu or cuda:1."""


@dataclass(frozen=True)
class ClassifierConfig:
    """A classifier of your own images."""

    base: str = "efficientnet-lite0"
    """The base network: efficientnet-lite0 (photos), efficientnet-lite2 or lite0+lite2 (photos, two and three times the
    cost), fc100 (32 px), miniimagenet (84 px), or a file written by `implanting pretrain`."""
    head: Literal["auto", "logistic", "prototypes"] = "auto"
    """How classes are told apart: a trained logistic head, prototypes (the paper's way), or auto: prototypes with
    implants, else the head."""
    method: Literal["auto"] | MethodName = "auto"
    """A method of `implanting info --methods` that needs no training of its own; auto: as --head and --implants say."""
    implants: Literal["auto"] | bool = "auto"
    """Train implants on the examples: True, False, or auto, which trains them if they helped on validation images."""
    unknown: str | None = None
    """Answer for images that fit no class; default: always answer with a class."""
    refuse: float = 0.05
    """Share of images of known classes that may be answered with --unknown by mistake."""
    keep_supports: bool = False
    """Keep the examples in the classifier, so that it can be trained again when classes change."""
    image_size: int | None = None
    """Side in pixels to which images are resized; default: that of the base network's training."""
