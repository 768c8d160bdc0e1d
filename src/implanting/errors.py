"""The exceptions a user may catch.

Each message says, in one line, what is wrong and where, what was found, what is needed, and how to mend it.
The command line prints it and exits with status 2; anything else that escapes is a bug of ours (status 1).
A setting stands in a message by its name in backticks (`image_size`), which the command line shows as its flag.
Wrong data is a `ValueError` too, as scikit-learn and its tools expect of an estimator. Wrong settings are not: the
command line's parser would take a `ValueError` for its own.
"""


class ImplantingError(Exception):
    """Something the user can mend; the parent of all exceptions raised on purpose."""


class ConfigError(ImplantingError):
    """Settings that contradict each other or the data."""


class DataError(ImplantingError, ValueError):
    """A data set that is missing, incomplete or in no known format."""


class UnsafePickle(DataError):
    """A pickle that asks for more than arrays and plain containers; nothing of it was run."""


class ImageError(DataError):
    """An image that does not decode."""


class ImageTooSmall(ImageError):
    """An image that leaves the network no location."""


class CheckpointError(ImplantingError):
    """A file that is not a checkpoint of ours, is damaged, or is of a newer format."""


class ExportError(ImplantingError):
    """A classifier that cannot be exported, or whose export does not compute the same."""


class MissingExtra(ImplantingError):
    """A package that is not installed with the core; the message names the command that installs it."""


class SplitMissing(DataError):
    """A split that is not there, where others of the data set are."""


class ImplantsKept(UserWarning):
    """Classes have changed while the implants stayed as they were trained."""


class CannotRefuse(UserWarning):
    """ "None of these" was asked for, and the images are too few to tell which would be it."""


class DataWarning(UserWarning):
    """Something about a data set that the user should know, though it can be used."""
