"""The named recipes of stage 1.

Each opens with its command, its cost and the result to expect, and says which of its values are the paper's and which
are ours. `implanting info --recipes` prints them.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from implanting.config import AugmentConfig, DataConfig, EpisodeConfig, NetworkConfig, PretrainConfig, TrainingMethod


@dataclass(frozen=True)
class Recipe:
    """A configuration of stage 1, with its command, its cost and the result to expect."""

    config: PretrainConfig
    about: str


def with_method(config: PretrainConfig, method: TrainingMethod, start: str | None = None) -> PretrainConfig:
    """A recipe with the settings that another method is usually trained with; the length of training is kept."""
    changes: dict[TrainingMethod, dict[str, Any]] = {
        "cosine": {},
        "pn": {"pooling": "gap", "optimizer": "adam", "learning_rate": 1e-3},
        "gidaris": {
            "pooling": "gap",
            "shrink_size": None,
            "precision": "auto",
            # The network is frozen: without augmentation, it sees each image once in the whole of training.
            "augment": AugmentConfig(crop_padding=0, flip=False),
        },
        "maml": {
            "architecture": NetworkConfig(network="c64f"),
            "pooling": "flatten",
            "optimizer": "adam",
            "learning_rate": 1e-3,
            "weight_decay": 0.0,
            "shrink_size": None,
            "precision": "auto",
            "episode": EpisodeConfig(episodes=4),
            "validation_tasks": 100,
        },
        "tadam": {"pooling": "gap", "tau": 0.01, "optimizer": "adam", "learning_rate": 3e-3},
    }
    # what only a cosine classifier of base classes is trained with
    regularised: dict[str, Any] = {} if method == "cosine" else {"rotation": 0.0, "mixup": 0.0}
    return replace(config, method=method, start=start, **regularised, **changes[method])


RecipeName = Literal["cpu", "cpu-strong", "cpu-84", "paper-miniimagenet", "paper-fc100", "demo"]

_CPU = PretrainConfig(
    architecture=NetworkConfig(width=32),
    augment=AugmentConfig(crop_padding=4, crop_mode="reflect", flip=True),
    pooling="dense",
    tau=10.0,
    optimizer="sgd",
    learning_rate=0.1,
    schedule="one-cycle",
    warmup=0.2,
    weight_decay=5e-4,
    batch_size=64,
    epochs=16.0,
    shrink_size=24,
    shrink_share=0.65,
)

RECIPES: dict[RecipeName, Recipe] = {
    "cpu": Recipe(
        _CPU,
        about="""implanting pretrain --data FC100 --recipe cpu --out base.safetensors
Cost: 16 epochs of 36,000 images at width 32, the first two thirds at 24 px and the rest at 32 px: as much arithmetic as
12 epochs at 32 px; 80 minutes on one busy core. As two processes (torchrun --nproc-per-node 2 -m implanting pretrain
...) 42 minutes of each of two cores, which took an hour on a machine that was busy with other work.
To expect on FC100's 20 validation classes with 1 / 5 / 10 shots (2,000 tasks, intervals 0.3, one run): 36.1 / 51.5 /
57.3 % dense, 36.8 / 52.7 / 58.9 % with --pooling gap.
The paper's: ResNet-12 at half its width, SGD with Nesterov momentum, tau 10. All else is ours (docs/lab-log.md).""",
    ),
    "cpu-strong": Recipe(
        replace(_CPU, architecture=NetworkConfig(width=32, last_pool=False), pooling="gap", rotation=0.5),
        about="""implanting pretrain --data FC100 --recipe cpu-strong --teacher first.safetensors --out base.safetensors
Cost: that of `cpu`, whose settings these are but for three: global average pooling, no max-pool after the last block,
and half of the images turned, which a head that is dropped later learns to name (not for images that may have any
position: --rotation 0). With --teacher, half of what it learns is the answers of a network that was trained before.
To expect on FC100's 20 validation classes with 1 / 5 / 10 shots (2,000 tasks, intervals 0.3, one run), by the mean:
38.6 / 54.8 / 60.8 % with a teacher of 39.0 / 55.4 / 61.7 %; with --rotation 0, 38.1 / 54.3 / 60.4 % with a teacher of
36.6 / 52.3 / 58.0 %, and two such networks side by side (`implanting join`) are that teacher. All three, once the first
had been trained further, are the base fc100, 40.2 / 57.0 / 63.2 % (docs/bases.md).
The paper's: ResNet-12 at half its width, SGD with Nesterov momentum, tau 10. All else is ours (docs/lab-log.md).""",
    ),
    "cpu-84": Recipe(
        replace(
            _CPU,
            data=DataConfig(image_size=84),
            augment=AugmentConfig(crop_padding=8, crop_mode="reflect", flip=True),
            epochs=10.0,
            shrink_size=42,
            shrink_share=0.75,
        ),
        about="""implanting pretrain --data miniImageNet --recipe cpu-84 --out base.safetensors
Cost: 10 epochs of 38,400 images at width 32, three quarters of them at 42 px and the rest at 84 px: 2 hours of one
core (3 hours 55 minutes on a busy machine).
To expect on miniImageNet's 16 validation classes with 1 / 5 / 10 shots (2,000 tasks, intervals up to 0.5, one run):
53.8 / 70.2 / 74.0 % dense, 53.9 / 71.3 / 75.5 % with --pooling gap.
The paper's: ResNet-12 at half its width, SGD with Nesterov momentum, tau 10. All else is ours (docs/lab-log.md).""",
    ),
    "paper-miniimagenet": Recipe(
        PretrainConfig(
            data=DataConfig(image_size=84),
            augment=AugmentConfig(crop_padding=8, crop_mode="zero", flip=True),
            pooling="dense",
            tau=10.0,
            optimizer="sgd",
            learning_rate=0.1,
            schedule="steps",
            weight_decay=5e-4,
            batch_size=200,
            iterations=8_000,
        ),
        about="""implanting pretrain --data miniImageNet --recipe paper-miniimagenet --out base.safetensors
Cost: 8,000 steps of 200 images of 84 px at width 64; not run by us (days on 2 cores, hours on a GPU).
To expect, by the paper, on the 20 novel classes with 1 / 5 / 10 shots: 62.53 / 78.95 / 82.66 % dense, and with
--pooling gap 58.61 / 76.40 / 80.76 %.
The paper's: ResNet-12, 8,000 x 200, SGD with Nesterov momentum, tau 10. Ours: learning rate 0.1 with the steps
of Gidaris & Komodakis, momentum 0.9, weight decay 5e-4, zero-padded crops of 8 px and flips.""",
    ),
    "paper-fc100": Recipe(
        PretrainConfig(
            data=DataConfig(image_size=32),
            augment=AugmentConfig(crop_padding=4, crop_mode="zero", flip=True),
            pooling="dense",
            tau=100.0,
            optimizer="adam",
            learning_rate=1e-3,
            schedule="steps",
            weight_decay=5e-4,
            batch_size=512,
            iterations=12_500,
        ),
        about="""implanting pretrain --data FC100 --recipe paper-fc100 --out base.safetensors
Cost: 12,500 steps of 512 images of 32 px at width 64; not run by us (more than a day on 2 cores).
To expect, by the paper, on the 20 novel classes with 1 / 5 / 10 shots: 42.04 / 57.05 / 61.91 % dense, and with
--pooling gap 41.02 / 56.63 / 61.65 %.
The paper's: ResNet-12, 12,500 x 512, Adam, tau 100. Ours: learning rate 1e-3 with the steps of Gidaris & Komodakis,
weight decay 5e-4, zero-padded crops of 4 px and flips.""",
    ),
    "demo": Recipe(
        PretrainConfig(
            architecture=NetworkConfig(width=8),
            augment=AugmentConfig(crop_padding=4, crop_mode="reflect", flip=False),
            pooling="dense",
            batch_size=64,
            epochs=12.0,
            validation_tasks=0,
        ),
        about="""implanting demo
Cost: 12 epochs of 901 digits at width 8, about 15 seconds. Made for handwritten digits, which must not be mirrored.
All values are ours.""",
    ),
}
