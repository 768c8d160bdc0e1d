import numpy as np
import pytest
import torch

from implanting.bench.open_set import FROM_UNKNOWN, KNOWN, QUERIES, Answers, compare
from toys import coloured


def share_in_order(known, strange) -> float:
    """AUROC by its meaning: of all pairs, how many have the unknown one higher; a draw counts half."""
    pairs = [(one, other) for one in known for other in strange]
    return sum((one < other) + 0.5 * (one == other) for one, other in pairs) / len(pairs)


def test_figures_are_counts():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(len(FROM_UNKNOWN), generator=generator).numpy() + FROM_UNKNOWN
    raw = torch.randn(len(FROM_UNKNOWN), KNOWN, generator=generator).softmax(1)
    figures = Answers(scores, scores > 0.5, raw, raw).figures()
    half = KNOWN * QUERIES
    assert figures["score"] == pytest.approx(share_in_order(scores[:half], scores[half:]))
    unsure = -raw.max(1).values
    assert figures["max_probability"] == pytest.approx(share_in_order(unsure[:half].tolist(), unsure[half:].tolist()))
    assert figures["refused"] == pytest.approx(np.count_nonzero(scores[:half] > 0.5) / half)
    assert figures["unknown_refused"] == pytest.approx(np.count_nonzero(scores[half:] > 0.5) / half)


def test_unknown_classes_are_told_from_known_ones(base):
    row = compare(base, coloured(classes=10, per_class=20, size=32, seed=3), shot=5, tasks=2)
    assert (row["shot"], row["tasks"], row["score"].tasks) == (5, 2, 2)
    assert row["score"].mean > 0.7  # by chance 0.5
    assert row["refused"].mean < 0.1 < row["unknown_refused"].mean
    assert 0 <= row["error_after"] < row["error_before"] <= 1
