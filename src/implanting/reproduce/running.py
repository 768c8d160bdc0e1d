"""The tests behind the cells of a table: the tasks that all base networks share, and the results one by one."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from implanting.base import BaseNetwork
from implanting.config import TaskConfig
from implanting.evaluation import TaskImages, Trial, compare
from implanting.fewshot import Result
from implanting.reproduce.kept_results import KeptResults
from implanting.reproduce.paper import IMPLANT_TASKS, SYSTEM_TASKS
from implanting.reproduce.settings import Setting
from implanting.runtime import Progress, silent


@dataclass(frozen=True)
class Trials:
    """The images and the tasks on which all base networks are tested."""

    images: TaskImages
    config: TaskConfig
    """The settings of the tasks, except the number of shots, which is the cell's."""

    def trial_of(self, setting: Setting) -> Trial:
        """A cell's approach and tasks; with implants at most as many tasks as in the paper, fewer for slow methods."""
        tasks = min(self.config.tasks, IMPLANT_TASKS) if setting.approach.implants else self.config.tasks
        if setting.stage1.method in ("maml", "tadam") or setting.rival == "last-block":
            tasks = min(tasks, SYSTEM_TASKS)
        return Trial(setting.approach, dataclasses.replace(self.config, shot=setting.shot, tasks=tasks))

    def draw(self, settings: Sequence[Setting]) -> None:
        """Draw all tasks before anything slow is done, so that too few images are reported at once."""
        for setting in settings:
            self.images.draw(self.trial_of(setting))


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
    """The result of each setting of a base network: first those on file, then the others as they are computed."""
    missing: dict[Trial, list[Setting]] = {}
    files = {setting: file_of(base, setting, trials, kept, half) for setting in settings}
    for setting, file in files.items():
        if (result := kept.read(file)) is not None:
            yield setting, result
        else:
            missing.setdefault(trials.trial_of(setting), []).append(setting)
    for trial, result in compare(base, trials.images, missing, half=half, cache=cache, progress=progress):
        for setting in missing[trial]:
            kept.write(files[setting], result)
            yield setting, result


def file_of(base: BaseNetwork, setting: Setting, trials: Trials, kept: KeptResults, half: bool) -> Path:
    """The file of a test's result, named after everything that the result depends on."""
    test = dataclasses.asdict(setting)
    test.pop("stage1")  # covered by the fingerprint of the base
    return kept.file_of(
        base=base.fingerprint,
        images=[image_set.fingerprint for image_set in trials.images.tested(setting.classes)],
        tasks=dataclasses.asdict(trials.trial_of(setting).tasks),
        test=test,
        half=half,
    )
