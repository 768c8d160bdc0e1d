"""`FewShotClassifier` among scikit-learn's tools, and under scikit-learn's own checks of an estimator.

The checks feed tables of numbers. `DrawnRows` draws every row as a small image and is our estimator in all else, so
that the checks really fit, predict, pickle and repeat. The estimator itself is checked too, as far as that goes without
images. Checks that cannot apply are excluded in groups, each with its reason, and must indeed fail.
"""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import Tags
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import validate_data

from implanting.base import BaseNetwork
from implanting.classifier.estimator import FewShotClassifier
from implanting.runtime import Progress
from toys import coloured

SHADES = coloured(classes=3, per_class=6, size=32, seed=1, prefix="shade")
IMAGES, NAMES = SHADES.images.numpy(), np.array(["oak", "ash", "élm"])[SHADES.labels]
FOLDS = StratifiedKFold(3)


class DrawnRows(FewShotClassifier):
    """Takes a table: three columns are the colour of a stripe, from the lowest to the highest value fitted to."""

    def fit(self, X: Any, y: Any) -> FewShotClassifier:  # noqa: N803 (scikit-learn's name)
        table, labels = validate_data(self, X, y)
        self.range_ = table.min(0), np.maximum(np.ptp(table, 0), 1e-9)
        return super().fit(self.drawn(table), labels)

    def _classified(self, images: Any, progress: Progress) -> Any:
        if not hasattr(self, "range_"):  # let the estimator say that it was not fitted
            return super()._classified(images, progress)
        return super()._classified(self.drawn(validate_data(self, images, reset=False)), progress)

    def drawn(self, table: np.ndarray) -> np.ndarray:
        low, extent = self.range_
        values = np.clip((table - low) / extent, 0, 1)
        missing = -values.shape[1] % 3
        colours = np.pad(values, ((0, 0), (0, missing))).reshape(len(table), -1, 3)
        stripes = (255 * colours).astype(np.uint8)
        across = np.arange(16) * stripes.shape[1] // 16
        return np.repeat(stripes[:, None, across], 16, axis=1)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.classifier_tags.poor_score = True  # by a network of width 2 that was trained for a second
        return tags


def outcome(estimator: FewShotClassifier, excluded: dict[str, str]) -> tuple[dict[str, str], set[str]]:
    """Checks that failed, with their message, and those that were excluded but passed."""
    with warnings.catch_warnings(action="ignore"):  # of checks that pass over what is not installed
        results = check_estimator(estimator, expected_failed_checks=excluded, on_skip=None, on_fail=None)
    failed = {result["check_name"]: str(result["exception"]) for result in results if result["status"] == "failed"}
    passed = {result["check_name"] for result in results if result["status"] == "passed"}
    assert passed
    return failed, passed & excluded.keys()


TYPES_ARE_CHECKED = {
    "check_do_not_raise_errors_in_init_or_set_params": "while tests run, arguments of a wrong type are refused, "
    "but for users the constructor only stores them"
}


def test_scikit_learns_checks_hold_for_drawn_rows(base):
    estimator = DrawnRows(base, implants=False, image_size=16)
    assert outcome(estimator, TYPES_ARE_CHECKED) == ({}, set())


def test_scikit_learns_checks_of_the_estimator_itself(base):
    """Its tags say that it takes no tables, so scikit-learn runs those that need none."""
    assert outcome(FewShotClassifier(base, implants=False), {}) == ({}, set())


def test_cross_validation(base):
    classifier = FewShotClassifier(base, implants=False)
    assert is_classifier(classifier)
    scores = cross_val_score(classifier, IMAGES, NAMES, cv=FOLDS)
    assert scores.shape == (3,)
    assert scores.mean() > 0.8
    images = [Image.fromarray(image) for image in IMAGES]  # a list of images, as people have them
    assert cross_val_score(classifier, images, NAMES, cv=FOLDS).tolist() == scores.tolist()
    answers = cross_val_predict(classifier, images, NAMES.tolist(), cv=FOLDS)
    assert np.mean(answers == NAMES) == pytest.approx(scores.mean())


def test_grid_search_over_methods(base):
    grid = {"implants": [False, True], "query_pooling": ["gap", "dense"]}
    classifier = FewShotClassifier(base, implant_epochs=2)
    search = GridSearchCV(classifier, grid, cv=StratifiedKFold(2), scoring="neg_log_loss").fit(IMAGES, NAMES)
    assert len(set(search.cv_results_["mean_test_score"])) > 1  # the settings make a difference
    assert search.best_params_.keys() == grid.keys()
    assert search.best_estimator_.base_ is base  # shared by all clones
    assert search.predict(IMAGES).shape == NAMES.shape


def halve(images: np.ndarray) -> np.ndarray:
    return images[:, ::2, ::2]


def test_a_pipeline_with_a_step_before(base):
    steps = [("halve", FunctionTransformer(halve)), ("classify", FewShotClassifier(base, implants=False))]
    pipeline = Pipeline(steps).fit(IMAGES, NAMES)
    direct = FewShotClassifier(base, implants=False).fit(halve(IMAGES), NAMES)
    assert np.array_equal(pipeline.predict_proba(IMAGES), direct.predict_proba(halve(IMAGES)))
    assert pipeline.score(IMAGES, NAMES) > 0.8
    pipeline.set_params(classify__unknown="?", classify__refuse=0.9)
    assert "?" in pipeline.predict(IMAGES)
    again = pickle.loads(pickle.dumps(pipeline))
    assert np.array_equal(again.predict(IMAGES), pipeline.predict(IMAGES))


def test_a_clone_is_not_fitted_and_shares_the_base(base: BaseNetwork, base_file):
    settings = {"implants": True, "unknown": "?", "refuse": 0.2, "random_state": 3, "implant_epochs": 2}
    fitted = FewShotClassifier(base, **settings).fit(IMAGES, NAMES)
    fresh = clone(fitted)
    assert fresh.base is base
    assert fresh.get_params() == fitted.get_params()
    assert not [name for name in vars(fresh) if name.endswith("_")]
    assert np.array_equal(fresh.fit(IMAGES, NAMES).predict_proba(IMAGES), fitted.predict_proba(IMAGES))
    assert clone(FewShotClassifier(base_file)).base == base_file


def test_settings_can_be_read_and_set(base):
    classifier = FewShotClassifier(base)
    assert set(classifier.get_params()) >= {"base", "implants", "unknown", "refuse", "keep_supports", "random_state"}
    assert classifier.set_params(refuse=0.3).refuse == 0.3
    with pytest.raises(ValueError, match="colour"):
        classifier.set_params(colour="red")
    assert "refuse=0.3" in repr(classifier)
