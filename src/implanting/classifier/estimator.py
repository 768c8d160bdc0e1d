"""`FewShotClassifier`: the classifier of images as a scikit-learn estimator."""

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags

from implanting.classifier.image_classifier import ImageClassifier


class FewShotClassifier(ImageClassifier, ClassifierMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Classify images from a few examples of each class; a scikit-learn estimator.

    Parameters, whose defaults are those of `ClassifierConfig`, `InferenceConfig` and `ImplantConfig`:

    - `base`: the base network: "efficientnet-lite0", "efficientnet-lite2", "lite0+lite2" (both side by side), "fc100",
      a file of `implanting pretrain`, or a `BaseNetwork`
    - `head`: what tells classes apart: "logistic", a head that is trained on the examples; "prototypes", as in the
      paper; or "auto": prototypes where implants or a pooling are asked for or implants are known to be better, else
      the head
    - `implants`: train implants on the examples: True, which with prototypes is the paper's method, False, or "auto",
      which is where they help
    - `unknown`: the label to answer where an image fits no class; None always answers with a class
    - `refuse`: the share of images of known classes that may be answered with `unknown`
    - `keep_supports`: keep the examples, so that `refit` can train again; a saved file then holds them
    - `image_size`: side in pixels to which images are brought; None is that of the base's training
    - `support_pooling`, `query_pooling`: "gap" or "gmp", and also "dense" for queries; None is what suits the base
    - `random_state`: fixes the initial weights of implants
    - `device`: "auto" or a PyTorch device
    - `implant_channels`, `implant_epochs`, `implant_learning_rate`: as in `ImplantConfig`

    Learned by `fit`:

    - `classes_`: the labels, sorted
    - `base_`: the base network
    - `learned_`: all that was learned: head or prototypes, implants, calibration, classes, kept examples
    - `supports_`: the examples where they are kept, else None
    - `held_out_`: what is said of each example by a classifier that was fitted without it: `HeldOut`
    """

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        return tags
