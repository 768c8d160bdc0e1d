"""The paper's seven claims, each a set of comparisons between two experiments on the same tasks.

A comparison is held if the whole 95 % interval of the paired difference is on the claimed side of zero, not held if it
is on the other side, and otherwise not decided. Only the direction is tested; the paper's difference is printed for
comparison. The interval is over the sampling of tasks: it says nothing about other training runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from implanting.config import ImplantConfig
from implanting.evaluation import Classes
from implanting.fewshot import Estimate, Result
from implanting.reproduce.settings import (
    C128F_DC,
    C128F_GAP,
    RESNET_DC,
    RESNET_GAP,
    RESNET_WIDE,
    QueryPooling,
    Setting,
    Stage1,
    SupportPooling,
    paper_implants,
)
from implanting.reproduce.tables import PrintedAccuracy

SHOTS = (1, 5, 10)
TESTS_OF_DC: tuple[tuple[SupportPooling, QueryPooling], ...] = (("gap", "dense"), ("gmp", "gmp"))
"""Poolings of supports and queries of a densely trained network: the first in Tables 2, 4, 5, the second in 1, 2."""


class Verdict(StrEnum):
    """Whether a claim is supported by the tasks."""

    HELD = "held"
    NOT_HELD = "not held"
    NOT_DECIDED = "not decided"


@dataclass(frozen=True)
class Comparison:
    """The claim that one experiment is more accurate than another."""

    better: Setting
    worse: Setting

    def __str__(self) -> str:
        where = f"{self.better.shot}-shot{'' if self.better.classes == 'novel' else f', {self.better.classes} classes'}"
        return f"{where}: {self.better.method} over {self.worse.method}"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper; a table decides it by the comparisons whose two sides are both in the table."""

    number: int
    text: str
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True)
class Finding:
    """A measured comparison: the paired difference, and the paper's difference in per cent."""

    comparison: Comparison
    difference: Estimate
    paper: float | None

    @property
    def verdict(self) -> Verdict:
        """Held, not held or not decided; a single task has no interval and decides nothing."""
        if self.difference.mean - self.difference.interval > 0:
            return Verdict.HELD
        if self.difference.mean + self.difference.interval < 0:
            return Verdict.NOT_HELD
        return Verdict.NOT_DECIDED


@dataclass(frozen=True)
class Decision:
    """A claim, and the comparisons of a table that decide it."""

    claim: Claim
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """Held if all comparisons are held, not held if one is not held, otherwise not decided."""
        verdicts = {finding.verdict for finding in self.findings}
        if Verdict.NOT_HELD in verdicts:
            return Verdict.NOT_HELD
        return Verdict.HELD if verdicts == {Verdict.HELD} else Verdict.NOT_DECIDED


def decide(results: Mapping[Setting, Result], figures: Mapping[Setting, PrintedAccuracy]) -> list[Decision]:
    """A decision on each claim that has a comparison with both sides measured."""
    decisions = [
        Decision(claim, tuple(find(comparison, results, figures) for comparison in _decidable(claim, results)))
        for claim in CLAIMS
    ]
    return [decision for decision in decisions if decision.findings]


def _decidable(claim: Claim, results: Mapping[Setting, Result]) -> list[Comparison]:
    return [comparison for comparison in claim.comparisons if {comparison.better, comparison.worse} <= results.keys()]


def find(
    comparison: Comparison, results: Mapping[Setting, Result], figures: Mapping[Setting, PrintedAccuracy]
) -> Finding:
    """Evaluate one comparison on the tasks that both sides share."""
    better, worse = comparison.better, comparison.worse
    both_known = {better, worse} <= figures.keys()
    paper = figures[better].mean - figures[worse].mean if both_known else None
    return Finding(comparison, results[better].gain_over(results[worse]), paper)


def novel(stage1: Stage1, shot: int, support: SupportPooling, query: QueryPooling) -> Setting:
    """A test on novel classes without implants."""
    return Setting(stage1, shot, support, query)


def with_implants(shot: int, query: QueryPooling, adapt: ImplantConfig) -> Setting:
    """A test on novel classes with implants in the densely trained ResNet-12."""
    return Setting(RESNET_DC, shot, "gap", query, implants=adapt)


def _tested_on(classes: Classes, stage1: Stage1, query: QueryPooling) -> Setting:
    """A 5-shot test with GAP supports on base classes or on both."""
    return Setting(stage1, 5, "gap", query, classes)


CLAIMS = (
    Claim(
        1,
        "dense classification beats GAP on novel classes, ResNet-12",
        tuple(
            Comparison(novel(RESNET_DC, shot, support, query), novel(RESNET_GAP, shot, "gap", "gap"))
            for shot in SHOTS
            for support, query in TESTS_OF_DC
        ),
    ),
    Claim(
        2,
        "dense classification loses to GAP on novel classes, C128F",
        tuple(Comparison(novel(C128F_GAP, shot, "gap", "gap"), novel(C128F_DC, shot, "gmp", "gmp")) for shot in SHOTS),
    ),
    Claim(
        3,
        "dense classification beats GAP on base classes and on both together",
        (
            Comparison(_tested_on("both", RESNET_DC, "dense"), _tested_on("both", RESNET_GAP, "gap")),
            Comparison(_tested_on("base", RESNET_DC, "dense"), _tested_on("base", RESNET_GAP, "gap")),
        ),
    ),
    Claim(
        4,
        "implants improve on dense classification",
        tuple(
            Comparison(with_implants(shot, "dense", paper_implants()), novel(RESNET_DC, shot, "gap", "dense"))
            for shot in SHOTS
        ),
    ),
    Claim(
        5,
        "a base network as wide as with implants does not: WIDE loses to plain dense classification",
        tuple(
            Comparison(novel(RESNET_DC, shot, "gap", "dense"), novel(RESNET_WIDE, shot, "gap", "dense"))
            for shot in SHOTS
        ),
    ),
    Claim(
        6,
        "implants trained with GAP supports lose when queries are tested with GMP",
        tuple(
            Comparison(with_implants(5, "gap", adapt), with_implants(5, "gmp", adapt))
            for adapt in (paper_implants("gap", "gap"), paper_implants("gap", "dense"))
        ),
    ),
    Claim(
        7,
        "dense queries cost a GAP-trained network accuracy, and a densely trained one none",
        (
            Comparison(novel(RESNET_GAP, 5, "gap", "gap"), novel(RESNET_GAP, 5, "gap", "dense")),
            Comparison(novel(RESNET_DC, 5, "gap", "dense"), novel(RESNET_DC, 5, "gap", "gap")),
        ),
    ),
)
