"""How much trained implants count: against explicit loops, and on tasks that want much or little of them."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from implanting.config import ImplantConfig
from implanting.errors import ConfigError
from implanting.fewshot import assign_folds
from implanting.implants.share import SHARES, USUAL, chosen_shares, weight_for
from toy_tasks import CONFIG, drawn, fitting, generators

LABELS = torch.arange(3).repeat_interleave(4)
"""Four images each of three classes: two halves of two."""


def lengths(phi: Tensor, pooling: str) -> Tensor:
    """The squared length of all pooled images of each task."""
    pooled = phi.mean(2) if pooling == "gap" else phi.amax(2)
    return pooled.square().sum((1, 2))


def shared(share: float | None, **changes):
    """A fitting whose implants get this share."""
    return replace(fitting(), config=replace(CONFIG, implant_share=share, **changes))


def test_a_share_of_one_leaves_implants_alone_even_where_base_features_are_zero():
    weight = weight_for(torch.tensor([1.0, 1.0, 0.1]), torch.tensor([torch.inf, 2.0, torch.inf]))
    assert weight[:2].tolist() == [1.0, 1.0]
    assert 0 < weight[2] < 1e-5


@pytest.mark.parametrize("pooling", ["gap", "gmp"])
@pytest.mark.parametrize("share", [0.01, 0.08, 0.999])
def test_trained_implants_have_at_most_their_share_of_the_length_of_the_supports(pooling, share):
    supports, queries = drawn(LABELS), drawn(torch.zeros(5, dtype=torch.long), views=1, seed=9).base_maps
    changes = {"adapt_support_pooling": pooling}
    whole = shared(1.0, **changes).adapted(supports, generators(0, 1))
    scaled = shared(share, **changes).adapted(supports, generators(0, 1))
    assert whole.weight is None
    assert scaled.weight is not None
    base, before, after = (
        lengths(maps, pooling) for maps in (supports.phi, whole(supports.base_maps), scaled(supports.base_maps))
    )
    torch.testing.assert_close(after / (base + after), (before / (base + before)).clamp(max=share))
    torch.testing.assert_close(scaled(queries), scaled.weight.view(-1, 1, 1, 1) * whole(queries))
    assert share > 0.9 or bool((scaled.weight < 1).all())


@pytest.mark.usefixtures("in_float64")
def test_the_share_is_chosen_by_supports_held_out_of_a_second_training():
    supports, chosen = drawn(LABELS), shared(None)
    fold_of = assign_folds(LABELS, 2)
    for task in range(2):
        alone = supports[task : task + 1]
        log_likelihoods = torch.zeros(1, len(SHARES))
        for fold in range(2):
            kept, held = (alone.select(torch.tensor([0]), (fold_of == part).nonzero().T) for part in (1 - fold, fold))
            for place, share in enumerate(SHARES):
                fitted = shared(share).fit_implants(kept, generators(task))
                said = fitted.probabilities(held.first_views(1).base_maps, held.first_views(1).phi)[0]
                for row, label in zip(said, held.labels, strict=True):
                    log_likelihoods[0, place] += row[label].log()
        expected = chosen_shares(log_likelihoods)
        torch.testing.assert_close(chosen.shares(supports, generators(0, 1))[task : task + 1], expected)
        by_hand = shared(float(expected)).adapted(alone, generators(task)).weight
        torch.testing.assert_close(chosen.adapted(supports, generators(0, 1)).weight[task : task + 1], by_hand)


def test_what_held_out_supports_say_outweighs_the_prior_where_it_is_clear():
    nothing, against, much = torch.zeros(6), [0.0, -1, -4, -7, -9, -9], torch.tensor([-9.0, -7, -5, -3, 0, 0])
    usual, small, large = chosen_shares(torch.stack([nothing, torch.tensor(against), much])).tolist()
    assert small < 0.07 < USUAL * 0.9 < usual < USUAL * 1.8 < 0.3 < large
    assert chosen_shares(much[None] + 100).item() == pytest.approx(large)


@pytest.mark.parametrize("labels", [torch.arange(3).repeat_interleave(3), torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 2])])
def test_with_too_few_supports_for_halves_the_share_is_the_usual_one(labels):
    assert shared(None).shares(drawn(labels), generators(0, 1)).tolist() == pytest.approx([USUAL, USUAL])


def test_a_factor_is_never_above_one_nor_zero():
    ratio = torch.tensor([0.0, 1e-9, 1.0, torch.inf])
    assert weight_for(torch.full((4,), 0.5), ratio).tolist() == pytest.approx([1, 1, 1, 1e-6])
    assert weight_for(torch.ones(4), ratio[:3].repeat(2)[:4]).tolist() == pytest.approx([1, 1, 1, 1])


def test_a_share_of_nothing_or_of_more_than_all_is_refused():
    for share in (0.0, -0.1, 1.5):
        with pytest.raises(ConfigError, match=r"`implant_share` is .*; it must be above 0, up to 1"):
            ImplantConfig(implant_share=share)
