import numpy as np
import pytest
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from PIL import Image

from implanting.config import TaskConfig
from implanting.fewshot import Result
from implanting.reproduce import TABLES, draw_table
from implanting.reproduce.drawing import draw_column

TABLE = TABLES["table5"]


def results(*per_task: float) -> dict:
    return {
        cell.setting: Result("toy", TaskConfig(tasks=len(per_task)), "images", np.array(per_task), np.eye(2, dtype=int))
        for cell in TABLE.cells()
        if cell.setting
    }


def test_a_bar_for_what_is_measured_and_a_mark_for_what_is_printed():
    panel = Figure().subplots()
    draw_column(panel, [row.cells["5-shot"] for row in TABLE.rows], results(0.4, 0.6))
    (bars,) = (container for container in panel.containers if isinstance(container, BarContainer))
    assert [(bar.get_y() + bar.get_height() / 2, bar.get_width()) for bar in bars] == [(0, 50), (1, 50), (2, 50)]
    (ends,) = bars.errorbar.lines[2]
    assert [segment[:, 0].tolist() for segment in ends.get_segments()] == [pytest.approx([30.4, 69.6])] * 3
    *_, marks = (container for container in panel.containers if isinstance(container, ErrorbarContainer))
    assert marks.lines[0].get_xdata().tolist() == [56.63, 57.05, 57.63, 53.30, 56.10]
    assert marks.lines[0].get_ydata().tolist() == [0, 1, 2, 3, 4]
    assert panel.get_xlim() == (45, 60)


@pytest.mark.parametrize("per_task", [[0.5], [0.4, 0.6]])
def test_a_table_is_drawn_even_where_there_is_no_interval(per_task, tmp_path):
    draw_table(TABLE, results(*per_task), "a title", tmp_path / "table5.png")
    with Image.open(tmp_path / "table5.png") as picture:
        assert min(picture.size) > 200
