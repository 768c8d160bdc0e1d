"""Errors that are answered with a status of their own."""

from implanting.errors import ConfigError, DataError


class Missing(DataError):
    """There is no such project, class or photo."""


class Conflict(ConfigError):
    """The request does not fit the present state."""
