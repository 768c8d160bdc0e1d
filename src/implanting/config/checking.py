"""What the values of settings may be, and the error that names a setting with another value."""

from typing import Any, Literal, get_args, get_origin, get_type_hints

from implanting.errors import ConfigError

MOST_MEMBERS = 16
"""Largest number of networks side by side."""

VIEWS = 6
"""Number of fixed views of an image: the image, its mirror image and four shifts."""

LARGEST_SIDE = 4096
"""Side in pixels beyond which no image is given to a network: a batch of them would not fit in any memory."""

MOST_STEPS = 10**9
"""Largest number of training steps or tasks; a larger one would take years and must be a typing error."""

SEEDS = 2**32
"""Seeds are 0 .. SEEDS - 1: PyTorch's generator on the CPU uses only 32 bits."""


def require(condition: bool, name: str, value: object, needed: str) -> None:
    """Raise a `ConfigError` that names the setting, unless the condition holds."""
    if not condition:
        raise ConfigError(f"`{name}` is {value}; it must be {needed}")


def _choices_of(kind: type[Any]) -> dict[str, tuple[Any, ...]]:
    """The values that `Literal` annotations list, by field."""
    listed = {}
    for name, hint in get_type_hints(kind).items():
        parts = (hint,) if get_origin(hint) is Literal else get_args(hint)
        values = [value for part in parts if get_origin(part) is Literal for value in get_args(part)]
        if values:
            listed[name] = (*values, *(None for part in parts if part is type(None)))
    return listed


def require_listed(config: Any) -> None:
    """Refuse values that a field's annotation does not list; from Python, nothing else checks them."""
    for name, values in _choices_of(type(config)).items():
        value = getattr(config, name)
        require(value in values, name, value, f"one of {', '.join(str(each) for each in values if each is not None)}")


def require_seed(seed: int, name: str = "seed") -> None:
    """Refuse a seed that PyTorch cannot take."""
    require(0 <= seed < SEEDS, name, seed, f"from 0 to {SEEDS - 1}")


def require_side(size: int | None, name: str = "image_size") -> None:
    """Refuse a side in pixels that is none, or beyond all memory."""
    require(size is None or 1 <= size <= LARGEST_SIDE, name, size, f"from 1 to {LARGEST_SIDE}")


def require_views(views: int, name: str) -> None:
    """Refuse a number of views that there are not."""
    require(1 <= views <= VIEWS, name, views, f"from 1 to {VIEWS}")
