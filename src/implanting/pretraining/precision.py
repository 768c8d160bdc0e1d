"""Mixed precision: the network multiplies in bf16, everything else stays in single precision.

Micikevicius et al., "Mixed precision training" (ICLR 2018), with bf16, whose range is that of single precision, so that
losses need no scaling. Weights, their updates, statistics of batch norm, the cosine and the loss are in single
precision; numbers between layers have 8 instead of 24 significant bits. Processors with instructions for it
(AVX512-BF16, AMX) train about twice as fast; others compute it in a roundabout way, slower than single precision.
"""

import time

import torch
import torch.nn.functional as F
from torch import Tensor

from implanting.config import Precision

CHANNELS, SIDE, IMAGES, TURNS = 64, 16, 16, 3
"""The convolution on which `gain_of_bf16` is measured, and how often; it takes some hundredths of a second."""

KINDS = (torch.float32, torch.bfloat16)


def uses_bf16(precision: Precision, device: torch.device) -> bool:
    """Whether a network is trained in bf16: if asked for, or by default on GPUs that can."""
    gpu = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return precision == "bf16" or (precision == "auto" and gpu)


def gain_of_bf16() -> float:
    """How many times as fast as in single precision a convolution and its gradients are in bf16 on this processor."""
    maps = torch.randn(IMAGES, CHANNELS, SIDE, SIDE).to(memory_format=torch.channels_last)
    kernel = torch.randn(CHANNELS, CHANNELS, 3, 3).to(memory_format=torch.channels_last)
    single, half = (min(_seconds(maps, kernel, kind) for _ in range(1 + TURNS)) for kind in KINDS)
    return single / half


def _seconds(maps: Tensor, kernel: Tensor, kind: torch.dtype) -> float:
    maps, kernel = (each.to(kind, copy=True).requires_grad_() for each in (maps, kernel))
    began = time.perf_counter()
    F.conv2d(maps, kernel, padding=1).sum().backward()
    return time.perf_counter() - began
