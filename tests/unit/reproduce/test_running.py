"""What a cell is tested on, and what is computed for it. That cells are what `evaluate` gives: see integration."""

from dataclasses import replace

import pytest

from implanting.config import TaskConfig
from implanting.evaluation import TaskImages, compare
from implanting.reproduce import RESNET_DC, KeptResults, Setting, Trials, run_tests
from implanting.reproduce.settings import paper_implants
from toys import coloured, toy_base

BASE = toy_base(size=32)
IMAGES = TaskImages(coloured(classes=4, per_class=8, size=32, seed=1), coloured(classes=3, per_class=8, size=32))
TRIALS = Trials(IMAGES, TaskConfig(way=3, queries=4, tasks=6, seed=5))
IMPLANTS = replace(paper_implants(), implant_channels=2, implant_epochs=2)
DENSE, POOLED = (Setting(RESNET_DC, 1, "gap", query) for query in ("dense", "gap"))
TRAINED = [replace(setting, shot=3, implants=IMPLANTS) for setting in (DENSE, POOLED)]
TOO_FEW = replace(DENSE, implants=IMPLANTS)  # one shot: prototypes answer
SETTINGS = [DENSE, *TRAINED, TOO_FEW, replace(DENSE, classes="base"), replace(DENSE, classes="both")]


@pytest.fixture
def kept(tmp_path):
    return KeptResults(tmp_path / "results")


@pytest.fixture
def computed(monkeypatch):
    """The trials that are not taken from what was kept."""
    asked = []

    def watched(base, images, trials, **how):
        asked.extend(trials)
        return compare(base, images, trials, **how)

    monkeypatch.setattr("implanting.reproduce.running.compare", watched)
    return asked


def test_cells_with_implants_see_the_first_of_the_tasks_as_in_the_paper():
    trials = replace(TRIALS, config=replace(TRIALS.config, tasks=10_000))
    assert [trials.trial_of(setting).tasks.tasks for setting in (DENSE, TRAINED[0])] == [10_000, 5_000]
    assert [trials.trial_of(setting).tasks.shot for setting in (DENSE, TRAINED[0])] == [1, 3]
    assert TRIALS.trial_of(TRAINED[0]).tasks.tasks == 6


def test_every_setting_has_its_result_and_equal_trials_are_computed_once(kept, computed):
    results = dict(run_tests(BASE, SETTINGS, TRIALS, kept))
    assert results.keys() == set(SETTINGS)
    assert results[TOO_FEW].method == results[DENSE].method == "prototypes (gap/dense)"
    assert results[TRAINED[1]].method == "implants (gap/gap)"
    assert len(computed) == len(set(computed)) == len(SETTINGS) - 1


def test_what_is_kept_comes_first_and_is_not_computed_again(kept, computed):
    first = dict(run_tests(BASE, SETTINGS[1:], TRIALS, kept))
    computed.clear()
    again = list(run_tests(BASE, SETTINGS, TRIALS, kept))
    assert computed == [TRIALS.trial_of(DENSE)]
    assert [setting for setting, _ in again] == [*SETTINGS[1:], DENSE]
    for setting, result in again[:-1]:
        assert result.per_task.tolist() == first[setting].per_task.tolist()


def test_a_result_is_kept_as_soon_as_it_is_there(kept):
    results = run_tests(BASE, SETTINGS, TRIALS, kept)
    for number, _ in enumerate(results, start=1):
        assert len(list(kept.folder.glob("*.npz"))) == number
        if number == 2:
            break


def test_results_of_other_images_or_bases_are_not_taken_up(kept, computed):
    list(run_tests(BASE, [DENSE], TRIALS, kept))
    list(run_tests(BASE, [DENSE], replace(TRIALS, images=TaskImages(IMAGES.base)), kept))
    list(run_tests(toy_base(size=32, tau=5.0), [DENSE], TRIALS, kept))
    assert len(computed) == 3
    list(run_tests(BASE, [DENSE], replace(TRIALS, images=TaskImages(IMAGES.novel)), kept))  # base classes play no part
    assert len(computed) == 3
