import json

import numpy as np
import pytest

from implanting.config import ImplantConfig, TaskConfig
from implanting.fewshot import Result
from implanting.reproduce import TABLES, decide, json_claims, markdown, result_rows, table_rows

TABLE = TABLES["table5"].with_ours(ImplantConfig(implant_channels=64, implant_share=1.0)).with_shots([5])


def results(tasks: int) -> dict:
    """Every cell 0.5 and a little more than the one before; tasks alternate about it."""
    settings = [cell.setting for cell in TABLE.cells() if cell.setting]
    noise = np.resize([0.1, -0.1], tasks) if tasks > 1 else np.zeros(1)
    return {
        setting: Result("toy", TaskConfig(tasks=tasks), "images", 0.5 + number / 100 + noise, np.eye(2, dtype=int))
        for number, setting in enumerate(settings)
    }


def test_a_row_says_where_it_comes_from_and_how_far_the_paper_is():
    rows = table_rows(TABLE, results(4), "†", "; ")
    assert rows == [
        ["GAP (GAP/GAP)", "50.00 ± 11.32; paper 56.63, -6.63†"],
        ["DC (GAP/DC)", "51.00 ± 11.32; paper 57.05, -6.05†"],
        ["DC + IMP (GAP/DC)", "52.00 ± 11.32; paper 57.63, -5.63†"],
        ["ours: DC + IMP (GAP/DC), channels 64", "53.00 ± 11.32"],
        ["PN (Oreshkin et al.), as reported", "53.30 ± 0.50"],
        ["TADAM (Oreshkin et al.), as reported", "56.10 ± 0.40"],
    ]


def test_markdown_has_the_table_the_notes_and_the_claims():
    measured = results(4)
    text = markdown(TABLE, measured, decide(measured, TABLE.figures()), ["a note"], "")
    assert "# Table 5: Novel classes of FC100, ResNet-12\n" in text
    assert "| GAP (GAP/GAP) | 50.00 ± 11.32<br>paper 56.63, -6.63 |\n" in text
    assert "\n- a note\n" in text
    assert "| 4. implants improve on dense classification |  |  | held |\n" in text
    assert (
        "| - 5-shot: ResNet-12 DC + IMP GAP/GAP (GAP/DC) over ResNet-12 DC (GAP/DC) | +1.00 ± 0.00 | +0.58 | held |"
        in text
    )


def test_json_has_fractions_and_no_interval_for_one_task():
    measured = results(1)
    rows = result_rows(TABLE, measured)
    assert rows[1]["mean"] == pytest.approx(0.51)
    assert rows[1]["difference"] == pytest.approx(-0.0605)
    assert rows[1]["interval"] is None
    assert [row["source"] for row in rows] == ["paper"] * 3 + ["ours"] + ["literature"] * 2
    assert rows[4] == {
        "row": "PN (Oreshkin et al.)",
        "column": "5-shot",
        "source": "literature",
        "paper": pytest.approx(0.533),
        "paper_interval": pytest.approx(0.005),
    }
    claims = json_claims(decide(measured, TABLE.figures()))
    assert [claim["verdict"] for claim in claims] == ["not decided"] * 2
    assert claims[1]["comparisons"][0]["difference"] == pytest.approx(0.01)
    json.dumps([rows, claims], allow_nan=False)
    assert "nan" not in markdown(TABLE, measured, decide(measured, TABLE.figures()), [], "")
