"""Which settings are tested in one go; that their results are those of `implanting evaluate` is seen in integration."""

from dataclasses import replace

from implanting.reproduce import RESNET_DC, Setting
from implanting.reproduce.running import together
from implanting.reproduce.settings import paper_implants

DENSE, POOLED = (Setting(RESNET_DC, 5, "gap", query) for query in ("dense", "gap"))
GMP_SUPPORTS = Setting(RESNET_DC, 5, "gmp", "gap")


def test_implants_are_trained_once_for_all_poolings_at_test():
    dense, pooled = (replace(setting, implants=paper_implants()) for setting in (DENSE, POOLED))
    assert together(dense) == together(pooled)
    assert together(dense) != together(replace(dense, shot=10))
    assert together(dense) != together(replace(dense, implants=paper_implants(query="dense")))


def test_tasks_that_decide_for_themselves_are_trained_for_each_pooling():
    held_out = replace(paper_implants(), implant_decision="held-out")
    dense, pooled = (replace(setting, implants=held_out) for setting in (DENSE, POOLED))
    assert together(dense) != together(pooled)
    dense, pooled = (replace(setting, shot=2) for setting in (dense, pooled))  # too few to decide
    assert together(dense) == together(pooled)


def test_supports_make_no_difference_to_base_classes():
    pooled, others = (replace(setting, classes="base") for setting in (POOLED, GMP_SUPPORTS))
    assert together(pooled) == together(others)
    assert together(POOLED) != together(GMP_SUPPORTS)
