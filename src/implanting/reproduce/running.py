"""Which tests of a base network are missing, and their results as they come."""

import dataclasses
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path

from implanting.base import BaseNetwork
from implanting.evaluation import Comparison
from implanting.fewshot import Result
from implanting.reproduce.kept_results import KeptResults
from implanting.reproduce.settings import Setting
from implanting.reproduce.testing import BaseTests
from implanting.reproduce.trials import Trials
from implanting.runtime import Progress, silent


def together(setting: Setting) -> Hashable:
    """Settings for which this is equal are tested in one go."""
    approach = setting.approach
    if approach.implants is not None and not approach.decides:
        return setting.shot, approach.implants
    return setting.query if setting.classes == "base" else setting


def run_tests(
    base: BaseNetwork,
    settings: Sequence[Setting],
    trials: Trials,
    kept: KeptResults,
    *,
    half: bool = False,
    cache: Path | None = None,
    progress: Progress = silent,
) -> Iterator[tuple[Setting, Result]]:
    """The result of each setting of a base network: those kept first, then the others as they are computed."""
    missing: dict[Hashable, list[Setting]] = {}
    files = {setting: file_of(base, setting, trials, kept, half) for setting in settings}
    for setting, file in files.items():
        if (result := kept.read(file)) is not None:
            yield setting, result
        else:
            missing.setdefault(together(setting), []).append(setting)
    approaches = [setting.approach for group in missing.values() for setting in group]
    comparison = Comparison(
        base, trials.novel, approaches, seed=trials.config.seed, half=half, cache=cache, progress=progress
    )
    tests = BaseTests(comparison, trials)
    for group in missing.values():
        for setting, result in zip(group, tests(group), strict=True):
            kept.write(files[setting], result)
            yield setting, result


def file_of(base: BaseNetwork, setting: Setting, trials: Trials, kept: KeptResults, half: bool) -> Path:
    """Where the result of a test is kept, by all that it depends on."""
    test = dataclasses.asdict(setting)
    test.pop("stage1")  # the base's fingerprint says more
    return kept.file_of(
        base=base.fingerprint,
        novel=trials.novel.fingerprint,
        held_out=trials.known.fingerprint if setting.classes != "novel" else None,
        tasks=dataclasses.asdict(trials.config_of(setting)),
        test=test,
        half=half,
    )
