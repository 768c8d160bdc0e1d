"""The setting `method`: the methods of `evaluate` on a user's own images."""

import dataclasses
from typing import get_args

import numpy as np
import pytest
import torch

from implanting.baselines import CosineFineTuningMethod, ImprintedMethod, LogisticMethod, pooled
from implanting.classifier.estimator import FewShotClassifier
from implanting.classifier.methods import REFUSED
from implanting.config import LinearMethod, MethodName, RivalConfig
from implanting.errors import ConfigError
from implanting.fewshot import Tasks
from toy_classifier import ASKED, IMAGES, NAMES, TRAINED, fitted

LINEAR = get_args(LinearMethod)


def evaluated(method: str, base, classes: np.ndarray) -> np.ndarray:
    """The answers of `evaluate`'s method to one task of all classes; the first images of each are its supports."""
    vectors = pooled(base.embed(torch.from_numpy(IMAGES)), base.pooling)
    rows = torch.stack([torch.from_numpy(np.flatnonzero(name == NAMES)) for name in classes])
    trained = torch.arange(len(IMAGES))[TRAINED]
    support = torch.stack([row[torch.isin(row, trained)] for row in rows])
    query = torch.stack([row[~torch.isin(row, trained)] for row in rows])
    numbers, own = torch.zeros(1, dtype=torch.int64), torch.arange(len(classes))
    tasks = Tasks("shades", numbers, own[None], support[None], query[None])
    answer = {
        "logistic": LogisticMethod(vectors, RivalConfig()),
        "baseline++": CosineFineTuningMethod(vectors, RivalConfig()),
        "imprinted": ImprintedMethod(vectors, base.tau, RivalConfig()),
    }[method]
    given = np.empty(len(IMAGES), dtype=object)
    given[query.flatten().numpy()] = classes[answer(tasks)[1].flatten().numpy()]
    return given[ASKED]


@pytest.mark.parametrize("method", LINEAR)
def test_it_answers_as_the_method_that_evaluate_tests(method, base):
    classifier = fitted(FewShotClassifier(base, method=method))
    assert classifier.predict(IMAGES[ASKED]).tolist() == evaluated(method, base, classifier.classes_).tolist()
    assert classifier.held_out_.probabilities.isfinite().all()


@pytest.mark.parametrize("method", LINEAR)
def test_it_is_saved_changed_and_explained_like_any_other(method, base, tmp_path):
    classifier = FewShotClassifier(base, method=method).fit(IMAGES[TRAINED], NAMES[TRAINED])
    classifier.save(tmp_path / "own.safetensors")
    loaded = FewShotClassifier.load(tmp_path / "own.safetensors")
    assert loaded.method == method
    given = classifier.predict_proba(IMAGES[ASKED])
    assert np.array_equal(loaded.predict_proba(IMAGES[ASKED]), given)
    last = classifier.classes_[-1]
    images = IMAGES[TRAINED][NAMES[TRAINED] == last]
    loaded.remove_class(last).add_class(last, images)
    np.testing.assert_allclose(loaded.predict_proba(IMAGES[ASKED]), given, atol=2e-3)
    assert classifier.explain(IMAGES[0]).kind == "evidence"


def test_classes_may_differ_in_size(base):
    images, names = IMAGES[TRAINED][:-3], NAMES[TRAINED][:-3]
    for method in LINEAR:
        classifier = FewShotClassifier(base, method=method).fit(images, names)
        assert set(classifier.predict(IMAGES[ASKED])) <= set(names)


@pytest.mark.parametrize(
    ("method", "settings"),
    [("prototypes", {"head": "prototypes", "implants": False}), ("implants", {"head": "prototypes", "implants": True})],
)
def test_prototypes_and_implants_are_those_of_the_other_settings(method, settings, base):
    named, other = (
        fitted(FewShotClassifier(base, implant_epochs=2, **each)) for each in ({"method": method}, settings)
    )
    assert np.array_equal(named.predict_proba(IMAGES[ASKED]), other.predict_proba(IMAGES[ASKED]))
    assert (named.learned_.implants is not None) == (method == "implants")


def test_every_method_is_learned_or_refused_with_its_reason(base):
    assert set(get_args(MethodName)) == {"prototypes", "implants", *LINEAR, *REFUSED}
    for method in REFUSED:
        with pytest.raises(ConfigError, match=rf"^`method` {method} .*(use|make one)"):
            FewShotClassifier(base, method=method).fit(IMAGES, NAMES)
    with pytest.raises(ConfigError, match="`method` is svm; it must be auto, prototypes"):
        FewShotClassifier(base).set_params(method="svm").fit(IMAGES, NAMES)
    with pytest.raises(ConfigError, match="`method` and `head` both choose"):
        FewShotClassifier(base, method="logistic", head="prototypes").fit(IMAGES, NAMES)
    with pytest.raises(ConfigError, match="`method` and `implants` both choose"):
        FewShotClassifier(base, method="implants", implants=False).fit(IMAGES, NAMES)


def test_a_base_of_maml_has_no_features_to_learn_from(base):
    config = dataclasses.replace(base.description.config, method="maml", pooling="flatten")
    trained = type(base).from_training(base.network, None, dataclasses.replace(base.description, config=config))
    with pytest.raises(ConfigError, match="was trained by maml and answers only as maml does"):
        FewShotClassifier(trained).fit(IMAGES, NAMES)
