"""`FewShotClassifier`: the image classifier as a scikit-learn estimator."""

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags

from implanting.classifier.image_classifier import ImageClassifier


class FewShotClassifier(ImageClassifier, ClassifierMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """A scikit-learn estimator that classifies images from a few examples of each class.

    Parameters (the defaults come from `ClassifierConfig`, `InferenceConfig` and `ImplantConfig`):

    - `base`: the base network: "efficientnet-lite0", "efficientnet-lite2", "lite0+lite2" (both side by side), "fc100",
      "miniimagenet", a file of `implanting pretrain`, or a `BaseNetwork`
    - `head`: how classes are distinguished: "logistic" trains a head on the examples; "prototypes" is the paper's way;
      "auto" chooses prototypes if you ask for implants or a pooling, or if implants are known to be better for this
      base, and the head otherwise
    - `method`: instead of `head` and `implants`, a method by its name in `evaluate`: "prototypes", "implants", or
      "logistic", "baseline++" or "imprinted", which are fitted to one feature vector per image
    - `implants`: whether to train implants on the examples: True (with prototypes, this is the paper's method), False,
      or "auto" to train them only when they are expected to help
    - `unknown`: the label for images that fit no class; with None, the answer is always a class
    - `refuse`: the share of images of known classes that may be answered with `unknown`
    - `keep_supports`: keep the examples, so that `refit` can train again; a saved file then includes them
    - `image_size`: side in pixels to which images are resized; None uses the size the base was trained on
    - `support_pooling`, `query_pooling`: "gap", "gmp" or "gem", for queries also "dense"; None for
      queries: dense if the base was trained so, else gap
    - `random_state`: seed of the implants' initial weights
    - `device`: "auto" or a PyTorch device
    - `implant_channels`, `implant_epochs`, `implant_learning_rate`: as in `ImplantConfig`
    - `implant_share`: None scales implants down as examples held out of a second training suggest (with fewer than
      four examples of a class, to a usual share); 1 leaves them as they were trained, which is the paper's way

    Learned by `fit`:

    - `classes_`: the labels, sorted
    - `base_`: the base network
    - `learned_`: everything that was learned: head or prototypes, implants, calibration, classes, kept examples
    - `supports_`: the examples if they were kept, else None
    - `held_out_`: the prediction for each example by a classifier fitted without it (`HeldOut`)
    """

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        return tags
