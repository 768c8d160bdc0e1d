"""Images of the base classes that were not trained on: for tests on base classes, alone or together with novel ones."""

from collections.abc import Callable

import torch

from implanting.base import BaseDescription
from implanting.datasets import ImageSet
from implanting.errors import ConfigError, SplitMissing

EXTRA_SPLIT = "train_phase_test"
"""Further images of the base classes, which come with some forms of miniImageNet."""


def held_out_images(described: BaseDescription, read: Callable[[str], ImageSet]) -> ImageSet:
    """The images that training held out, or else the extra split; `read` reads a split of the data."""
    if described.held_out:
        trained = read("train")
        if trained.fingerprint != described.data_fingerprint:
            raise ConfigError(
                f"{trained.name} is not the data that the base was trained on ({described.data_name}): "
                f"{difference(trained, described)}; name that data"
            )
        return trained.subset(torch.tensor(described.held_out))
    extra = extra_images(described.class_names, read)
    if extra is None:
        raise ConfigError(
            f"the base held no images of {described.data_name} out and there is no split {EXTRA_SPLIT}: "
            "train with `hold_out` 100"
        )
    return extra


def difference(found: ImageSet, described: BaseDescription) -> str:
    """Describe how data, perhaps of the same name, differs from the training data, as far as this is known."""
    if found.class_names != described.class_names:
        return f"its {len(found.class_names)} classes are not the base's {len(described.class_names)}"
    (height, width), trained = found.images.shape[1:3], described.image_size
    if (height, width) != trained:
        return f"its images have {width} x {height} px, the base's had {trained[1]} x {trained[0]}"
    return f"the same classes, other images (fingerprint {found.fingerprint[:8]}, not {described.data_fingerprint[:8]})"


def extra_images(base_classes: tuple[str, ...], read: Callable[[str], ImageSet]) -> ImageSet | None:
    """The extra split, if there is one; its classes must be the base classes."""
    try:
        extra = read(EXTRA_SPLIT)
    except SplitMissing:
        return None
    if extra.class_names != base_classes:
        raise ConfigError(f"{extra.name} has other classes than the base: both must come from the same files")
    return extra
