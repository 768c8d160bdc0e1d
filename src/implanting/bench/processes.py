"""One process of two threads compared with two processes of one thread, both trained as `pretrain` does."""

from dataclasses import replace

from implanting.config import NetworkConfig
from implanting.pretraining import RECIPES, Layout, training_speed

LAYOUTS = (Layout(1, 2), Layout(2, 1))


def compare(width: int, steps: int, rounds: int) -> dict[str, float]:
    """The best speed of each layout, in interleaved turns."""
    config = replace(RECIPES["cpu"].config, architecture=NetworkConfig(width=width))
    turns = [{str(layout): training_speed(config, layout, steps) for layout in LAYOUTS} for _ in range(rounds)]
    return {str(layout): max(turn[str(layout)] for turn in turns) for layout in LAYOUTS}
