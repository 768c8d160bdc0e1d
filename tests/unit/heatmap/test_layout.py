import subprocess
import sys

import numpy as np
import pytest

from implanting.heatmap import Limits, Panel, percent
from implanting.heatmap.layout import row_figure


@pytest.mark.parametrize(
    ("probability", "text"),
    [(0.0, "0 %"), (0.001, "< 1 %"), (0.874, "87 %"), (0.996, "> 99 %"), (1.0, "100 %")],
)
def test_a_probability_is_never_rounded_to_certainty(probability, text):
    assert percent(probability) == text


def test_titles_stand_above_their_pictures_and_do_not_meet():
    panels = [Panel(np.zeros((384, 48, 3), np.uint8), "W" * 80, "50 %") for _ in range(3)]
    figure = row_figure(panels, Limits(0, 1), "cosine")
    figure.draw_without_rendering()
    texts = [axes.texts[0].get_window_extent() for axes in figure.axes[:3]]
    for axes, text in zip(figure.axes, texts, strict=False):
        assert text.y0 > axes.get_window_extent().y1
        assert text.y1 <= figure.bbox.y1
    centres = [(text.x0 + text.x1) / 2 for text in texts]
    np.testing.assert_allclose(centres, [(axes.bbox.x0 + axes.bbox.x1) / 2 for axes in figure.axes[:3]], atol=1)


def test_average_names_keep_to_their_cell():
    panels = [Panel(np.zeros((240, 240, 3), np.uint8), "Panthera tigris the tiger of somewhere") for _ in range(2)]
    figure = row_figure(panels, Limits(0, 1), "cosine")
    figure.draw_without_rendering()
    first, second = (axes.texts[0].get_window_extent() for axes in figure.axes[:2])
    assert first.x1 < second.x0


def test_matplotlib_is_loaded_only_to_draw_and_pyplot_never():
    program = """
import sys
import numpy as np
from implanting.heatmap import Explanation
assert "matplotlib" not in sys.modules
one = np.ones(1, np.float32)
Explanation(np.zeros((4, 4, 3), np.uint8), np.eye(2, dtype=np.float32)[None], ("a",), one)._repr_png_()
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
