"""Speed and memory against the usual way, as ratios in one run.

One file per subject, measuring and its table together. Nothing else in the project imports this room but its command.
"""

from implanting.bench.adapt import Adapt
from implanting.bench.classifier import Classifier
from implanting.bench.evaluate import Evaluate
from implanting.bench.inference import Inference
from implanting.bench.pretrain import Pretrain
from implanting.bench.serve import Serve

__all__ = ["Adapt", "Classifier", "Evaluate", "Inference", "Pretrain", "Serve"]
