"""Settings as they are stored in files, also in those of earlier versions."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

import msgspec

RETIRED: dict[str, Any] = {"label_smoothing": 0.0, "validation_images": None}
"""Former settings of stage 1, with the value under which they trained as this version does; None: any value."""

RETIRED_VALUES: dict[str, Any] = {"schedule": "constant"}
"""Values of current settings that earlier versions had."""


def retired_settings(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a stored configuration under which this version can no longer train."""
    return {
        name: value
        for name, value in stored.items()
        if (name in RETIRED and RETIRED[name] is not None and RETIRED[name] != value)
        or (name in RETIRED_VALUES and RETIRED_VALUES[name] == value)
    }


Config = TypeVar("Config")


def config_from_dict(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """The inverse of `dataclasses.asdict` for nested configurations; retired settings are left out.

    A value of another type than its field's, or a setting that is unknown, is a `ValueError`.
    """
    try:
        return msgspec.convert(_known_settings(kind, values), kind)
    except msgspec.ValidationError as fault:
        raise ValueError(str(fault)) from None


def _known_settings(kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise ValueError(f"settings are {type(values).__name__}; expected names with their values")
    known = {field.name for field in dataclasses.fields(kind)}
    kept = {
        name: value
        for name, value in values.items()
        if name not in RETIRED and not (name in RETIRED_VALUES and RETIRED_VALUES[name] == value)
    }
    if unknown := sorted(kept.keys() - known):
        raise ValueError(f"the setting {unknown[0]} is unknown to this version")
    hints = get_type_hints(kind)
    return {
        name: _known_settings(hints[name], value) if dataclasses.is_dataclass(hints[name]) else value
        for name, value in kept.items()
    }


def flat(config: Any) -> dict[str, Any]:
    """All settings of a configuration by name, including those of nested configurations."""
    values: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        values |= flat(value) if dataclasses.is_dataclass(value) else {item.name: value}
    return values
