"""Few-shot image classification by dense classification and implanting (Lifchitz et al., CVPR 2019).

The public names are imported when they are first used, so that `import implanting` is quick and the command line can
set up the threads before PyTorch is loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from implanting.version import __version__

if TYPE_CHECKING:
    from implanting.base import BaseNetwork, load_base
    from implanting.classifier.estimator import FewShotClassifier
    from implanting.datasets import ImageSet, read_dataset
    from implanting.evaluation import evaluate
    from implanting.fewshot import Result, with_tau_from
    from implanting.images import Normalisation, Preprocessing, read_folder
    from implanting.networks import ImplantedModule
    from implanting.pretraining import pretrain

__all__ = [
    "BaseNetwork",
    "FewShotClassifier",
    "ImageSet",
    "ImplantedModule",
    "Normalisation",
    "Preprocessing",
    "Result",
    "__version__",
    "evaluate",
    "load_base",
    "pretrain",
    "read_dataset",
    "read_folder",
    "with_tau_from",
]

_HOMES = {
    "BaseNetwork": "base",
    "FewShotClassifier": "classifier.estimator",
    "ImageSet": "datasets",
    "ImplantedModule": "networks",
    "Normalisation": "images",
    "Preprocessing": "images",
    "Result": "fewshot",
    "evaluate": "evaluation",
    "load_base": "base",
    "pretrain": "pretraining",
    "read_dataset": "datasets",
    "read_folder": "images",
    "with_tau_from": "fewshot",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'implanting' has no attribute '{name}'")
    return getattr(import_module(f"implanting.{_HOMES[name]}"), name)
