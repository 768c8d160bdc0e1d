"""The bench measures what it says: what is compared computes the same, and every figure is there."""

import pytest

from implanting.bench import inference
from implanting.images import decode
from implanting.images.decoding import stored_size
from rounding import NEAR


def test_networks_are_compared_on_equal_answers():
    row = inference.compare_networks("c128f", 32, images=3, rounds=1)
    assert row["difference"] < NEAR
    assert {"eager", "eager_in_batches", "ours"} <= row.keys()
    assert row["over_eager"] == pytest.approx(row["ours"] / row["eager"])
    assert row["over_eager_one_image"] == pytest.approx(row["ours_one_image"] / row["eager_one_image"])
    assert row["seconds_to_make_ready"] > 0


def test_photos_have_twelve_megapixels_and_are_decoded_at_a_fraction(tmp_path):
    first, second = inference.write_photos(tmp_path, 2)
    assert stored_size(first) == stored_size(second) == (3000, 4000)
    assert decode(first, 84).size == (500, 375)


def test_photos_decoded_at_a_fraction_lose_little():
    row = inference.compare_folder("c128f", 32, photos=2, rounds=1)
    assert row["end_to_end"] > 0
    assert 0 < row["mean_difference"] < 0.5
    assert 0 < row["largest_difference"] <= 3
    assert 0 < row["probability_difference"] < 0.01
