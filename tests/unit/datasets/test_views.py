"""Views against loops over pixels, and where they stand in a set with views."""

import pytest
import torch

from implanting.config import VIEWS, ImplantConfig, InferenceConfig
from implanting.datasets import add_views, rows_of
from implanting.errors import ConfigError
from implanting.images import views_of
from implanting.images.preprocessing import MOVES, view_of
from toys import coloured, noise

IMAGES = noise(3, 16, 24, 3)


def test_there_are_as_many_views_as_the_settings_allow():
    assert len(MOVES) == VIEWS
    for views in (0, VIEWS + 1):
        with pytest.raises(ConfigError, match=f"`support_views` is {views}; it must be from 1 to 6"):
            InferenceConfig(support_views=views)
        with pytest.raises(ConfigError, match="`adapt_views`"):
            ImplantConfig(adapt_views=views)


def test_the_first_view_is_the_image_and_the_second_its_mirror():
    assert torch.equal(view_of(IMAGES, 0), IMAGES)
    mirrored = view_of(IMAGES, 1)
    for column in range(24):
        assert torch.equal(mirrored[:, :, column], IMAGES[:, :, 23 - column])


@pytest.mark.parametrize(("view", "down", "right"), [(2, 2, 0), (3, -2, 0), (4, 0, 3), (5, 0, -3)])
def test_the_others_are_moved_by_an_eighth_of_the_side(view, down, right):
    def inside(position: int, length: int) -> int:
        """The edge itself is not repeated: -1 is 1, and `length` is `length` - 2."""
        return -position if position < 0 else min(position, 2 * (length - 1) - position)

    moved = view_of(IMAGES, view)
    for row in range(16):
        for column in range(24):
            expected = IMAGES[:, inside(row - down, 16), inside(column - right, 24)]
            assert torch.equal(moved[:, row, column], expected)


def test_views_are_all_different_and_always_the_same():
    views = views_of(IMAGES, VIEWS)
    assert views.shape == (6, 3, 16, 24, 3)
    assert len(views.flatten(1).unique(dim=0)) == VIEWS
    assert torch.equal(views, views_of(IMAGES, VIEWS))
    assert torch.equal(views[:2], views_of(IMAGES, 2))


def test_image_i_in_view_v_stands_behind_all_images_in_earlier_views():
    image_set = coloured(per_class=4)
    seen = add_views(image_set, 3)
    assert len(seen) == 36
    assert seen.fingerprint != image_set.fingerprint
    for image in range(12):
        for view in range(3):
            row = view * 12 + image
            assert torch.equal(seen.images[row], view_of(image_set.images[image : image + 1], view)[0])
            assert seen.labels[row] == image_set.labels[image]
    assert add_views(image_set, 1) is image_set


def test_rows_of_supports_gain_an_axis():
    assert rows_of(torch.tensor([[3, 0]]), 3, 12).tolist() == [[[3, 15, 27], [0, 12, 24]]]


def test_a_set_larger_than_the_budget_is_memory_mapped():
    image_set = coloured(per_class=4)
    assert torch.equal(add_views(image_set, 2, budget=0).images, add_views(image_set, 2).images)
