import numpy as np
import pytest

from implanting.config import TaskConfig
from implanting.fewshot import Result
from implanting.reproduce import RESNET_DC, RESNET_GAP, TABLES, Setting, decide
from implanting.reproduce.claims import CLAIMS, Verdict
from implanting.reproduce.settings import paper_implants
from implanting.reproduce.tables import PrintedAccuracy

GAP, DC = Setting(RESNET_GAP, 5, "gap", "gap"), Setting(RESNET_DC, 5, "gap", "dense")
IMPLANTS = Setting(RESNET_DC, 5, "gap", "dense", implants=paper_implants())


def result(*per_task: float, shot: int = 5) -> Result:
    return Result("toy", TaskConfig(shot=shot, tasks=len(per_task)), "images", np.array(per_task), np.eye(2, dtype=int))


@pytest.mark.parametrize(
    ("dense", "verdict"),
    [
        ([0.62, 0.71, 0.83], Verdict.HELD),  # +0.02, +0.01, +0.03
        ([0.58, 0.69, 0.77], Verdict.NOT_HELD),
        ([0.62, 0.69, 0.80], Verdict.NOT_DECIDED),  # +0.02, -0.01, 0
    ],
)
def test_the_paired_interval_decides(dense, verdict):
    (decision,) = decide(
        {GAP: result(0.6, 0.7, 0.8), DC: result(*dense)}, {GAP: PrintedAccuracy(76.40), DC: PrintedAccuracy(78.95)}
    )
    assert decision.claim.number == 1
    (finding,) = decision.findings
    assert decision.verdict == finding.verdict == verdict
    assert finding.difference.mean == pytest.approx(np.mean(dense) - 0.7)
    assert finding.paper == pytest.approx(2.55)
    assert str(finding.comparison) == "5-shot: ResNet-12 DC (GAP/DC) over ResNet-12 GAP (GAP/GAP)"


def test_one_task_decides_nothing():
    (decision,) = decide({GAP: result(0.1), DC: result(0.9)}, {})
    assert decision.verdict == Verdict.NOT_DECIDED
    assert decision.findings[0].paper is None


def two_shots(*signs: int) -> Verdict:
    """The verdict on implants whose gain at 5 and at 10 shots has these signs."""
    results = {}
    for shot, sign in zip((5, 10), signs, strict=True):
        without = np.array([0.5, 0.6, 0.7])
        gains = {1: [0.01, 0.02, 0.03], -1: [-0.01, -0.02, -0.03], 0: [-0.01, 0, 0.01]}[sign]
        results[Setting(RESNET_DC, shot, "gap", "dense")] = result(*without, shot=shot)
        with_implants = Setting(RESNET_DC, shot, "gap", "dense", implants=paper_implants())
        results[with_implants] = result(*(without + gains), shot=shot)
    (decision,) = decide(results, {})
    assert decision.claim.number == 4
    return decision.verdict


def test_a_claim_is_held_by_all_its_comparisons():
    assert two_shots(1, 1) == Verdict.HELD
    assert two_shots(1, 0) == two_shots(0, 0) == Verdict.NOT_DECIDED
    assert two_shots(1, -1) == two_shots(0, -1) == Verdict.NOT_HELD


def test_implants_are_compared_on_the_tasks_that_they_saw():
    results = {DC: result(0.5, 0.6, 0.7, 0.1, 0.9), IMPLANTS: result(0.52, 0.61, 0.73)}
    (decision,) = decide(results, {})
    assert decision.findings[0].difference.mean == pytest.approx(0.02)
    assert decision.findings[0].difference.tasks == 3


def test_a_table_decides_the_claims_it_has_both_sides_of():
    decided = {name: [decision.claim.number for decision in by_the_paper(name)] for name in TABLES}
    assert decided == {
        "table1": [1, 2],
        "table2": [1, 3, 7],
        "table3": [6],
        "table4": [1, 4, 5],
        "table5": [1, 4],
    }
    assert sorted({number for numbers in decided.values() for number in numbers}) == [c.number for c in CLAIMS]


def by_the_paper(name):
    """The decisions on tasks all of which have exactly the paper's accuracy, but for a little noise."""
    figures = TABLES[name].figures()
    results = {
        setting: result(figure.mean / 100 - 1e-4, figure.mean / 100 + 1e-4, shot=setting.shot)
        for setting, figure in figures.items()
    }
    return decide(results, figures)


@pytest.mark.parametrize("name", TABLES)
def test_the_papers_own_figures_hold_every_claim(name):
    decisions = by_the_paper(name)
    assert [decision.verdict for decision in decisions] == [Verdict.HELD] * len(decisions)
    for decision in decisions:
        assert all(
            finding.paper == pytest.approx(100 * finding.difference.mean, abs=1e-6) for finding in decision.findings
        )


def test_the_sizes_that_the_paper_claims():
    sizes = {
        (name, decision.claim.number): [round(finding.paper, 2) for finding in decision.findings]
        for name in TABLES
        for decision in by_the_paper(name)
    }
    assert sizes["table4", 1] == [3.92, 2.55, 1.90]
    assert sizes["table1", 2] == [4.44, 1.96, 2.31]
    assert sizes["table2", 3] == [11.53, 1.33]
    assert sizes["table4", 4] == [0.82, 1.17]
    assert sizes["table5", 4] == [0.58, 1.00]
    assert sizes["table4", 5] == [0.80, 0.70, 0.63]
    assert sizes["table3", 6] == [5.05, 4.98]
    assert sizes["table2", 7] == [3.12, 0.40]
