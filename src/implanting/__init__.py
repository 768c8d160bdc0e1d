"""Few-shot image classification by dense classification and implanting (Lifchitz et al., CVPR 2019).

The public names are imported on first use, so that `import implanting` is fast and the command line can set the number
of threads before PyTorch is loaded. They are listed twice: as data for Python, and as imports for type checkers and
editors, which do not run `__getattr__`. A test keeps the two lists equal. Nothing else is imported here, because this
module is loaded before the program can set what Ctrl-C does (`__main__.py`).
"""

from implanting.version import __version__ as __version__

TYPE_CHECKING = False  # type checkers take it for True, as that of `typing`, which would have to be imported

if TYPE_CHECKING:
    from implanting.advice import Confused as Confused
    from implanting.advice import Copies as Copies
    from implanting.advice import Examples as Examples
    from implanting.advice import Findings as Findings
    from implanting.advice import Mislabelled as Mislabelled
    from implanting.advice import Suggestion as Suggestion
    from implanting.advice import check as check
    from implanting.advice import examples_of as examples_of
    from implanting.advice import suggest as suggest
    from implanting.base import BaseDescription as BaseDescription
    from implanting.base import BaseNetwork as BaseNetwork
    from implanting.base import TrainingFacts as TrainingFacts
    from implanting.base import Validation as Validation
    from implanting.base import load_base as load_base
    from implanting.baselines import METHODS as METHODS
    from implanting.classifier import Answer as Answer
    from implanting.classifier import HeldOut as HeldOut
    from implanting.classifier import ImageClassifier as ImageClassifier
    from implanting.classifier.estimator import FewShotClassifier as FewShotClassifier
    from implanting.config import AugmentConfig as AugmentConfig
    from implanting.config import ClassifierConfig as ClassifierConfig
    from implanting.config import DataConfig as DataConfig
    from implanting.config import EpisodeConfig as EpisodeConfig
    from implanting.config import ImplantConfig as ImplantConfig
    from implanting.config import InferenceConfig as InferenceConfig
    from implanting.config import NetworkConfig as NetworkConfig
    from implanting.config import PretrainConfig as PretrainConfig
    from implanting.config import RivalConfig as RivalConfig
    from implanting.config import TaskConfig as TaskConfig
    from implanting.datasets import ImageSet as ImageSet
    from implanting.datasets import read_dataset as read_dataset
    from implanting.errors import CannotRefuse as CannotRefuse
    from implanting.errors import CheckpointError as CheckpointError
    from implanting.errors import ConfigError as ConfigError
    from implanting.errors import DataError as DataError
    from implanting.errors import DataWarning as DataWarning
    from implanting.errors import ExportError as ExportError
    from implanting.errors import ImageError as ImageError
    from implanting.errors import ImageTooSmall as ImageTooSmall
    from implanting.errors import ImplantingError as ImplantingError
    from implanting.errors import ImplantsKept as ImplantsKept
    from implanting.errors import MissingExtra as MissingExtra
    from implanting.errors import SplitMissing as SplitMissing
    from implanting.errors import UnsafePickle as UnsafePickle
    from implanting.evaluation import evaluate as evaluate
    from implanting.fewshot import Estimate as Estimate
    from implanting.fewshot import Result as Result
    from implanting.fewshot import Share as Share
    from implanting.fewshot import with_tau_from as with_tau_from
    from implanting.heatmap import Explanation as Explanation
    from implanting.images import Failure as Failure
    from implanting.images import Normalisation as Normalisation
    from implanting.images import Preprocessing as Preprocessing
    from implanting.images import read_folder as read_folder
    from implanting.networks import ImplantedModule as ImplantedModule
    from implanting.pretraining import RECIPES as RECIPES
    from implanting.pretraining import Output as Output
    from implanting.pretraining import pretrain as pretrain
    from implanting.runtime import Progress as Progress

_NAMES = {
    "advice": "Confused Copies Examples Findings Mislabelled Suggestion check examples_of suggest",
    "base": "BaseDescription BaseNetwork TrainingFacts Validation load_base",
    "baselines": "METHODS",
    "classifier": "Answer HeldOut ImageClassifier",
    "classifier.estimator": "FewShotClassifier",
    "config": "AugmentConfig ClassifierConfig DataConfig EpisodeConfig ImplantConfig InferenceConfig NetworkConfig "
    "PretrainConfig RivalConfig TaskConfig",
    "datasets": "ImageSet read_dataset",
    "errors": "CannotRefuse CheckpointError ConfigError DataError DataWarning ExportError ImageError ImageTooSmall "
    "ImplantingError ImplantsKept MissingExtra SplitMissing UnsafePickle",
    "evaluation": "evaluate",
    "fewshot": "Estimate Result Share with_tau_from",
    "heatmap": "Explanation",
    "images": "Failure Normalisation Preprocessing read_folder",
    "networks": "ImplantedModule",
    "pretraining": "RECIPES Output pretrain",
    "runtime": "Progress",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", *_HOMES]

if not TYPE_CHECKING:  # otherwise a type checker would accept any name

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module 'implanting' has no attribute '{name}'")
        return getattr(import_module(f"implanting.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
