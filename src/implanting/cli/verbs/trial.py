"""A trial of a network on this machine: one image is run, to see that it works and how long it takes."""

import dataclasses
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from implanting.base import BaseNetwork, images_at_once
from implanting.runtime import choose_device

MEMORY = Path("/proc/meminfo")
"""The file in which Linux reports its memory."""

HELD = 3
"""Maps of the largest layer's size that are in memory at once: its input, its output and the shortcut."""


@dataclass(frozen=True)
class Trial:
    """The outcome of running one image through a network on this machine."""

    torch: str
    device: str
    threads: int
    milliseconds: float
    needed: int
    """Bytes that the weights and a batch of images need, approximately."""
    free: int | None
    """Bytes of free memory, if known."""

    @property
    def fits(self) -> bool:
        """Whether a batch fits into the free memory."""
        return self.free is None or self.needed <= self.free

    def document(self) -> dict[str, Any]:
        """The fields and the verdict, for JSON."""
        return dataclasses.asdict(self) | {"fits": self.fits}

    def __str__(self) -> str:
        verdict = "runs it" if self.fits else "has too little memory"
        free = "" if self.free is None else f" of {self.free / 2**30:.1f} GB free"
        threads = f" ({self.threads} thread{'s' * (self.threads != 1)})" if self.device == "cpu" else ""
        return (
            f"{verdict}: an image in {self.milliseconds:.0f} ms on {self.device}{threads}, "
            f"batches in about {self.needed / 2**20:.0f} MB{free}; torch {self.torch}"
        )


@torch.inference_mode()
def trial(base: BaseNetwork) -> Trial:
    """Run an image of the network's own size twice, and time the second run."""
    device = choose_device("auto")
    base.to(str(device))
    height, width = base.preprocessing.image_size
    image = torch.zeros(1, height, width, 3, dtype=torch.uint8)
    base.embed(image)
    began = time.perf_counter()
    base.embed(image).cpu()
    seconds = time.perf_counter() - began
    numbers = base.network.numbers_per_pixel * height * width * images_at_once(base.network, height, width)
    weights = sum(tensor.nbytes for tensor in base.tensors.values())
    needed = 2 * weights + HELD * 4 * int(numbers)  # the weights as trained, and folded and packed
    return Trial(torch.__version__, str(device), torch.get_num_threads(), 1e3 * seconds, needed, free_memory(device))


def free_memory(device: torch.device) -> int | None:
    """Bytes of free memory on a device, if known."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if not MEMORY.exists():
        return None
    available = re.search(r"MemAvailable:\s+(\d+) kB", MEMORY.read_text())
    return int(available[1]) * 1024 if available else None
