"""An image set knows its classes, its subsets and its fingerprint."""

import dataclasses

import pytest
import torch

from implanting.datasets import ImageSet, check_disjoint, image_set
from implanting.errors import DataError


def make(labels, class_names=("ash", "elm", "oak"), name="trees train") -> ImageSet:
    """Image i is plain grey of level i."""
    images = torch.arange(len(labels), dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 2, 2, 3).contiguous()
    return ImageSet(images, torch.tensor(labels), tuple(class_names), name, "as stored")


def levels(images: ImageSet) -> list[int]:
    return images.images[:, 0, 0, 0].tolist()


def test_length_and_indices_by_class():
    trees = make([2, 0, 2, 0, 2])
    assert len(trees) == 5
    assert [indices.tolist() for indices in trees.indices_by_class()] == [[1, 3], [], [0, 2, 4]]
    assert trees.smallest_class == 0
    assert make([2, 0, 2, 0, 1, 1, 1]).smallest_class == 2


def test_subset_keeps_order_and_classes():
    subset = make([2, 0, 1]).subset(torch.tensor([2, 0]))
    assert (levels(subset), subset.labels.tolist()) == ([2, 0], [1, 2])
    assert subset.class_names == ("ash", "elm", "oak")


def test_subset_in_chunks_and_mapped(monkeypatch):
    monkeypatch.setattr(image_set, "CHUNK", 3)
    subset = make([0] * 10, ["ash"]).subset(torch.arange(9, 1, -1), budget=0)
    assert levels(subset) == list(range(9, 1, -1))


def test_hold_out_takes_the_same_number_of_each_class():
    trees = make([0, 1, 2] * 4)
    indices = trees.choose_held_out(2, seed=0)
    remaining, held_out = trees.without(indices), trees.subset(indices)
    assert torch.bincount(held_out.labels).tolist() == [2, 2, 2]
    assert levels(held_out) == indices.tolist() == sorted(indices.tolist())
    assert sorted(levels(remaining) + levels(held_out)) == list(range(12))


def test_hold_out_depends_on_the_seed_alone():
    trees = make([0, 1, 2] * 20)
    torch.manual_seed(1)
    first = trees.choose_held_out(5, seed=3)
    torch.manual_seed(2)
    assert torch.equal(first, trees.choose_held_out(5, seed=3))
    assert not torch.equal(first, trees.choose_held_out(5, seed=4))


def test_hold_out_names_the_class_that_has_too_few():
    with pytest.raises(DataError, match=r"class 'oak' has 1 image; at least 3 are needed .* or add 2"):
        make([0, 0, 0, 1, 1, 1, 2]).choose_held_out(2, seed=0)


def test_fingerprint_of_equal_sets_is_equal(monkeypatch):
    first = make([0, 1, 2]).fingerprint
    monkeypatch.setattr(image_set, "CHUNK", 2)
    assert make([0, 1, 2], name="elsewhere").fingerprint == first
    assert len(first) == 64


@pytest.mark.parametrize("change", ["images", "labels", "class_names"])
def test_fingerprint_sees_every_part(change):
    trees = make([0, 1, 2])
    pixels = trees.images.clone()
    pixels[2, 1, 1, 2] += 1
    changed = {"images": pixels, "labels": torch.tensor([0, 2, 1]), "class_names": ("ash", "elm", "yew")}[change]
    assert dataclasses.replace(trees, **{change: changed}).fingerprint != trees.fingerprint


def test_disjoint_sets_pass_and_shared_classes_are_named():
    base, novel = make([0], ["ash", "elm"]), make([0], ["oak", "yew"], "trees test")
    check_disjoint(base, novel)
    with pytest.raises(DataError, match="trees train and trees val share 1 classes, such as 'elm'"):
        check_disjoint(base, novel, make([0], ["elm", "fir"], "trees val"))


def test_files_that_each_count_from_zero_share_nothing():
    check_disjoint(make([0], "01234"), make([0], "012"))


@pytest.mark.parametrize(("first", "second"), [("01234", "45678"), ("45678", "01234")])
def test_numbers_that_go_on_are_shared(first, second):
    with pytest.raises(DataError, match="such as '4'"):
        check_disjoint(make([0], first), make([0], second))
