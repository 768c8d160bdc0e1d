import numpy as np
import pytest
import torch
import torch.nn.functional as F

from implanting.heatmap import Limits, centre_square, fit, overlay, scale_colours
from implanting.heatmap.overlay import Box, upsample
from toys import noise

WHITE, BLACK = (np.full((20, 30, 3), value, np.uint8) for value in (255, 0))


@pytest.mark.parametrize("size", [(2, 2), (7, 7), (3, 5)])
def test_upsampling_is_bilinear_between_the_centres_of_locations(size):
    scores = torch.rand(size)
    expected = F.interpolate(scores[None, None], (40, 60), mode="bilinear", align_corners=False)[0, 0]
    np.testing.assert_allclose(upsample(scores.numpy(), (60, 40)), expected.numpy(), atol=1e-5)


def test_a_map_of_doubles_is_drawn_as_one_of_floats():
    scores = np.random.default_rng(0).random((3, 3))
    np.testing.assert_array_equal(upsample(scores, (9, 9)), upsample(scores.astype(np.float32), (9, 9)))


def test_high_is_red_and_low_is_blue():
    scores = np.array([[0.0, 1.0]], np.float32)
    drawn = overlay(BLACK, scores, Limits(0, 1)).astype(int)
    low, high = drawn[10, 0], drawn[10, -1]
    assert low[2] > low[0]
    assert high[0] > high[2]


def test_grey_at_seven_tenths_on_white_under_colour_at_forty_five_hundredths():
    from matplotlib import colormaps

    scores = np.full((2, 2), 0.25, np.float32)
    image = noise(20, 30, 3).numpy()
    drawn = overlay(image, scores, Limits(0, 1))
    red, green, blue = image[7, 9].astype(float)
    page = 0.7 * (0.299 * red + 0.587 * green + 0.114 * blue) + 0.3 * 255
    expected = 0.45 * 255 * np.array(colormaps["jet"](0.25)[:3]) + 0.55 * page
    np.testing.assert_allclose(drawn[7, 9], expected, atol=1)


def test_only_the_part_that_the_network_saw_is_coloured():
    drawn = overlay(WHITE, np.ones((2, 2), np.float32), Limits(0, 1), centre_square(20, 30))
    coloured = (drawn != drawn[..., :1]).any(-1)
    assert coloured[:, 5:25].all()
    assert not coloured[:, :5].any()
    assert not coloured[:, 25:].any()


def test_the_image_is_left_as_it_was():
    image = noise(8, 8, 3).numpy()
    before = image.copy()
    overlay(image, np.ones((2, 2), np.float32), Limits(0, 1))
    np.testing.assert_array_equal(image, before)


def test_equal_scores_lie_in_the_middle_of_their_scale():
    limits = Limits.of(np.full((1, 2, 2), 0.3, np.float32))
    assert limits == pytest.approx((-0.2, 0.8))


def test_one_scale_spans_all_maps():
    assert Limits.of(np.array([[[1.0, 2.0]], [[-3.0, 0.0]]])) == (-3, 2)


@pytest.mark.parametrize(("shape", "expected"), [((32, 32), (100, 100)), ((400, 200), (100, 50)), ((1, 900), (1, 100))])
def test_images_are_brought_to_one_size_in_their_own_shape(shape, expected):
    assert fit(np.zeros((*shape, 3), np.uint8), 100).shape == (*expected, 3)


def test_a_box_scales_with_its_image():
    assert centre_square(20, 40).scaled(2.0) == Box(20, 0, 60, 40)
    assert centre_square(20, 40).size == (20, 20)


def test_the_scale_goes_from_blue_to_red():
    colours = scale_colours(5).astype(int)
    assert colours.shape == (5, 3)
    assert colours[0, 2] > colours[0, 0]
    assert colours[-1, 0] > colours[-1, 2]
