"""The named recipes of stage 1.

Each opens with its command, its cost and the result to expect, and says which of its values are the paper's.
"""

from dataclasses import dataclass

from implanting.config import AugmentConfig, DataConfig, NetworkConfig, PretrainConfig


@dataclass(frozen=True)
class Recipe:
    """A configuration of stage 1 and what is known of it."""

    config: PretrainConfig
    about: str


RECIPES = {
    "cpu": Recipe(
        PretrainConfig(
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
            epochs=12.0,
        ),
        about="",
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
        about="",
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
        about="",
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
        about="",
    ),
}
