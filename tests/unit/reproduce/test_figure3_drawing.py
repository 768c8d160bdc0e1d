import numpy as np
import pytest

from implanting.reproduce import Example, Figure3, Sight, write_figure3
from implanting.reproduce.figure3_drawing import draw
from toys import noise


def example(name: str, pooling_answer: str) -> Example:
    maps = np.random.default_rng(0).random((2, 2, 2)).astype(np.float32)
    sights = Sight(maps[0], 0.3, pooling_answer), Sight(maps[1], 0.996, name)
    return Example(noise(32, 32, 3).numpy(), name, *sights)


@pytest.fixture
def found() -> Figure3:
    rows = {"first": [example("oak", "oak"), example("elm $x", "ash")], "second": [example("fir", "ash")], "third": []}
    return Figure3(rows, "A rule of some length. " * 12)


def test_each_example_has_three_pictures_and_a_scale(found):
    assert len(draw(found).axes) == 3 * 4


def test_answers_and_gaps_are_told(found):
    figure = draw(found)
    above = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert above[:3] == ["oak", "pooling\n✓ 30 %", "dense\n✓ > 99 %"]
    assert "pooling ✗ ash\n30 %" in above
    beside = [text.get_text() for text in figure.texts]
    assert [text for text in beside if text.endswith("found")] == ["1 found", "0 found"]
    assert {"first", "second", "third"} < set(beside)


def test_the_two_maps_share_a_scale(found):
    scale = draw(found).axes[3]
    both = np.stack([found.rows["first"][0].pooling.map, found.rows["first"][0].dense.map])
    np.testing.assert_allclose(scale.get_ylim(), (both.min(), both.max()))


def test_the_caption_stays_within_the_figure(found):
    figure = draw(found)
    figure.draw_without_rendering()
    (caption,) = [text for text in figure.texts if text.get_text().startswith("A rule")]
    extent = caption.get_window_extent()
    assert extent.x1 < figure.bbox.x1
    assert extent.y1 < min(axes.bbox.y0 for axes in figure.axes)


def test_it_is_written_by_the_ending_of_its_name(found, tmp_path):
    write_figure3(found, tmp_path / "figure3.svg")
    assert "<svg" in (tmp_path / "figure3.svg").read_text()


def test_nothing_at_all_is_a_figure_too():
    assert draw(Figure3({"first": []}, "none")).axes == []
