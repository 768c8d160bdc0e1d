"""One task as a user has it: photos and labels in, answers, explanations and one safe file out.

The scikit-learn estimator is `classifier.estimator`; it is not imported here, as scikit-learn takes longer to load than
everything else.
"""

from implanting.classifier.files import KIND, plain_labels
from implanting.classifier.image_classifier import ImageClassifier
from implanting.classifier.labels import Answer, from_text
from implanting.classifier.learned import HeldOut, Learned
from implanting.classifier.learning import learn_from_readings

__all__ = [
    "KIND",
    "Answer",
    "HeldOut",
    "ImageClassifier",
    "Learned",
    "from_text",
    "learn_from_readings",
    "plain_labels",
]
