"""What is read for the approaches that are compared, and how often it is computed."""

from dataclasses import replace

import pytest
import torch

from implanting.config import ImplantConfig, InferenceConfig, TaskConfig
from implanting.datasets import add_views
from implanting.errors import DataError
from implanting.evaluation import Approach, TaskImages, Trial
from implanting.evaluation.comparison import method_of
from implanting.evaluation.features import Features
from implanting.fewshot import PrototypeMethod
from implanting.implants import Activations, DecidedMethod, ImplantMethod, compute_activations
from toys import coloured, toy_base

BASE, IMAGES = toy_base(size=32), coloured(classes=3, per_class=4, size=32)
PLAIN, AVERAGED = Approach(InferenceConfig()), Approach(InferenceConfig(support_views=2))
ALWAYS, HELD_OUT = ImplantConfig(), ImplantConfig(implant_decision="held-out")
COMPUTES = "implanting.evaluation.features.compute_activations"


def features(*approaches, **how):
    return Features(BASE, TaskImages(IMAGES), approaches, **how)


def method(approach, read):
    return method_of(Trial(approach, TaskConfig()), read)


def same(first: Activations, second: Activations) -> bool:
    pairs = zip([*first.base_maps, first.phi], [*second.base_maps, second.phi], strict=True)
    return all(torch.equal(*pair) for pair in pairs)


def test_all_approaches_read_one_pass_each_as_many_views_as_it_needs(monkeypatch):
    passes = []

    def counted(base, image_set, **how):
        passes.append(len(image_set))
        return compute_activations(base, image_set, **how)

    monkeypatch.setattr(COMPUTES, counted)
    monkeypatch.setattr(BASE, "embed", lambda *_: pytest.fail("a second pass"))
    implants = replace(PLAIN, implants=replace(ALWAYS, adapt_views=2))
    decided = replace(PLAIN, implants=replace(HELD_OUT, adapt_views=3))
    read = features(PLAIN, AVERAGED, implants, decided)
    seen = compute_activations(BASE, add_views(IMAGES, 3))
    for approach, views in ((PLAIN, 1), (AVERAGED, 2)):
        prototypes = method(approach, read)
        assert isinstance(prototypes, PrototypeMethod)
        assert prototypes.support_views == views
        assert torch.equal(prototypes.phi, seen.phi[: 12 * views])
    trained = method(implants, read)
    assert isinstance(trained, ImplantMethod)
    assert same(trained.activations, seen.first(24))
    deciding = method(decided, read)
    assert isinstance(deciding, DecidedMethod)
    assert same(deciding.implants.activations, seen)
    assert passes == [36]


def test_prototypes_alone_need_no_maps(monkeypatch):
    monkeypatch.setattr(COMPUTES, lambda *_, **__: pytest.fail("maps"))
    read = features(PLAIN, AVERAGED)
    assert torch.equal(method(AVERAGED, read).phi, BASE.embed(add_views(IMAGES, 2).images))


def test_a_cache_of_other_images_is_refused_before_anything_is_computed(tmp_path, monkeypatch):
    implants = replace(PLAIN, implants=ALWAYS)
    features(implants, cache=tmp_path / "new").check_cache()
    assert not (tmp_path / "new").exists()
    compute_activations(BASE, coloured(seed=1, size=32), cache=tmp_path / "other")
    monkeypatch.setattr(BASE, "activations", lambda *_: pytest.fail("computed"))
    with pytest.raises(DataError, match="other"):
        features(implants, cache=tmp_path / "other").check_cache()
    features(PLAIN, cache=tmp_path / "other").check_cache()  # is not read
