"""The exceptions and warnings that a user may catch.

Each message says, in one line, what is wrong and where, what was found, what is needed, and how to fix it.
The command line prints it and exits with status 2; any other exception is a bug of ours (status 1).
A message names a setting in backticks (`image_size`), which the command line shows as its flag.
Errors in the data are also `ValueError`s, as scikit-learn expects of an estimator. Errors in the settings are not: the
command line's parser would take a `ValueError` for its own.
"""


class ImplantingError(Exception):
    """An error that the user can fix; the parent of all exceptions below."""


class ConfigError(ImplantingError):
    """Settings are out of range, or contradict each other or the data."""


class DataError(ImplantingError, ValueError):
    """A data set is missing, incomplete or in an unknown format."""


class UnsafePickle(DataError):
    """A pickle contains more than arrays and plain containers; none of it was run."""


class ImageError(DataError):
    """An image cannot be decoded."""


class ImageTooSmall(ImageError):
    """An image is so small that the network's map would have no location."""


class CheckpointError(ImplantingError):
    """A file is not one of our checkpoints, is damaged, or has a newer format."""


class ExportError(ImplantingError):
    """A classifier cannot be exported, or its export does not compute the same."""


class MissingExtra(ImplantingError):
    """An optional package is not installed; the message has the command that installs it."""


class SplitMissing(DataError):
    """A data set has other splits, but not the one asked for."""


class ImplantsKept(UserWarning):
    """Classes were added or removed, but the implants were not trained again."""


class CannotRefuse(UserWarning):
    """An answer for unknown images was set, but there are too few images to decide which are unknown."""


class DataWarning(UserWarning):
    """Something about a data set that the user should know, although it can be used."""
