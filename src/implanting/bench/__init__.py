"""Speed and memory compared with the usual way, as ratios measured in one run; and the classifier beside simple rivals.

One file per subject, with the measurement and its table. Only the command `bench` imports this room.
"""

from implanting.bench.adapt import Adapt
from implanting.bench.classifier import Classifier
from implanting.bench.evaluate import Evaluate
from implanting.bench.inference import Inference
from implanting.bench.photos import Photos
from implanting.bench.pretrain import Pretrain
from implanting.bench.serve import Serve

__all__ = ["Adapt", "Classifier", "Evaluate", "Inference", "Photos", "Pretrain", "Serve"]
