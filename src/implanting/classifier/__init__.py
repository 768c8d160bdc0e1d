"""The user's classifier: takes photos and labels; gives answers, explanations and one safe file.

The scikit-learn estimator is `classifier.estimator`. It is not imported here because scikit-learn takes longer to load
than everything else.
"""

from implanting.classifier.files import KIND, plain_labels
from implanting.classifier.image_classifier import ImageClassifier
from implanting.classifier.labels import Answer, from_text
from implanting.classifier.learned import HeldOut, Learned
from implanting.classifier.learning import default_way, learn_from_readings

__all__ = [
    "KIND",
    "Answer",
    "HeldOut",
    "ImageClassifier",
    "Learned",
    "default_way",
    "from_text",
    "learn_from_readings",
    "plain_labels",
]
