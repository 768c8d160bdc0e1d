"""What a number of shots gets of what was asked for, and what is read for it."""

from dataclasses import replace

import pytest
import torch

from implanting.config import ImplantConfig, InferenceConfig
from implanting.datasets import add_views
from implanting.errors import ConfigError, DataError
from implanting.evaluation import Approach, Comparison
from implanting.fewshot import PrototypeMethod
from implanting.implants import Activations, DecidedMethod, ImplantMethod, compute_activations
from toys import coloured, toy_base

BASE, IMAGES = toy_base(size=32), coloured(classes=3, per_class=4, size=32)
PLAIN = InferenceConfig()
ALWAYS, HELD_OUT = ImplantConfig(), ImplantConfig(implant_decision="held-out")


@pytest.mark.parametrize(
    ("asked", "shot", "given"),
    [
        (None, 1, None),
        (ALWAYS, 1, None),
        (HELD_OUT, 1, None),
        (ALWAYS, 2, ALWAYS),
        (HELD_OUT, 2, ALWAYS),
        (HELD_OUT, 3, HELD_OUT),
        (replace(HELD_OUT, adapt_views=2), 1, replace(ALWAYS, adapt_views=2)),
        (replace(HELD_OUT, adapt_views=2), 2, replace(HELD_OUT, adapt_views=2)),
    ],
)
def test_too_few_shots_get_less_than_was_asked_for(asked, shot, given):
    approach = Approach(PLAIN, asked)
    assert approach.at(shot) == Approach(PLAIN, given)
    assert approach.serves(shot) == (asked == given)


@pytest.mark.parametrize(
    ("shot", "views", "folds", "possible"),
    [
        (1, 6, 5, False),
        (2, 1, 5, False),
        (2, 2, 5, True),
        (3, 1, 5, True),
        (3, 1, 2, False),
        (4, 1, 2, True),
        (9, 1, 5, True),
    ],
)
def test_a_decision_needs_enough_supports_beside_those_held_out(shot, views, folds, possible):
    config = ImplantConfig(adapt_views=views, decision_folds=folds, implant_decision="held-out")
    assert Approach(PLAIN, config).at(shot).decides == possible


def same(first: Activations, second: Activations) -> bool:
    pairs = zip([*first.base_maps, first.phi], [*second.base_maps, second.phi], strict=True)
    return all(torch.equal(*pair) for pair in pairs)


def test_all_approaches_read_one_pass_each_as_many_views_as_it_needs(monkeypatch):
    passes = []

    def counted(base, image_set, **how):
        passes.append(len(image_set))
        return compute_activations(base, image_set, **how)

    monkeypatch.setattr("implanting.evaluation.comparison.compute_activations", counted)
    monkeypatch.setattr(BASE, "embed", lambda *_: pytest.fail("a second pass"))
    prototypes, averaged = Approach(PLAIN), Approach(InferenceConfig(support_views=2))
    implants, decided = (
        Approach(PLAIN, replace(ALWAYS, adapt_views=2)),
        Approach(PLAIN, replace(HELD_OUT, adapt_views=3)),
    )
    comparison = Comparison(BASE, IMAGES, [prototypes, averaged, implants, decided], seed=0)
    seen = compute_activations(BASE, add_views(IMAGES, 3))
    for approach, views in ((prototypes, 1), (averaged, 2)):
        method = comparison.method(approach)
        assert isinstance(method, PrototypeMethod)
        assert method.views == views
        assert torch.equal(method.phi, seen.phi[: 12 * views])
        assert comparison.method(approach) is method
    trained = comparison.method(implants)
    assert isinstance(trained, ImplantMethod)
    assert same(trained.activations, seen.first(24))
    deciding = comparison.method(decided)
    assert isinstance(deciding, DecidedMethod)
    assert same(deciding.implants.activations, seen)
    assert passes == [36]


def test_prototypes_alone_need_no_maps(monkeypatch):
    monkeypatch.setattr("implanting.evaluation.comparison.compute_activations", lambda *_, **__: pytest.fail("maps"))
    averaged = Approach(InferenceConfig(support_views=2))
    method = Comparison(BASE, IMAGES, [Approach(PLAIN), averaged], seed=0).method(averaged)
    assert torch.equal(method.phi, BASE.embed(add_views(IMAGES, 2).images))


def test_implants_refuse_a_base_trained_with_flatten_before_anything_is_computed(monkeypatch):
    monkeypatch.setattr(
        "implanting.evaluation.comparison.compute_activations", lambda *_, **__: pytest.fail("computed")
    )
    with pytest.raises(ConfigError, match="flatten"):
        Comparison(toy_base(size=32, pooling="flatten"), IMAGES, [Approach(PLAIN), Approach(PLAIN, ALWAYS)], seed=0)


def test_flatten_refuses_maps_of_another_size():
    flatten, larger = toy_base(size=32, pooling="flatten"), coloured(size=64)
    with pytest.raises(ConfigError, match=r"64 x 64 px, 4 x 4 locations.*on 2 x 2.*image_size=32"):
        Comparison(flatten, larger, [Approach(PLAIN)], seed=0)
    Comparison(BASE, larger, [Approach(PLAIN)], seed=0)


def test_a_cache_of_other_images_is_refused_before_anything_is_computed(tmp_path, monkeypatch):
    implants = [Approach(PLAIN, ALWAYS)]
    Comparison(BASE, IMAGES, implants, seed=0, cache=tmp_path / "new").check_cache()
    assert not (tmp_path / "new").exists()
    compute_activations(BASE, coloured(seed=1, size=32), cache=tmp_path / "other")
    monkeypatch.setattr(BASE, "activations", lambda *_: pytest.fail("computed"))
    with pytest.raises(DataError, match="other"):
        Comparison(BASE, IMAGES, implants, seed=0, cache=tmp_path / "other").check_cache()
    Comparison(BASE, IMAGES, [Approach(PLAIN)], seed=0, cache=tmp_path / "other").check_cache()  # is not read
