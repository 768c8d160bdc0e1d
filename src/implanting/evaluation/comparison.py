"""From approaches and tasks to results: the one function that every evaluation calls.

Tasks are drawn once (`task_images`) and features are computed once (`features`), whatever the number of approaches. The
methods of `baselines` are known by their names (`rivals`).
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from implanting.base import BaseNetwork
from implanting.config import InferenceConfig
from implanting.datasets import ImageSet
from implanting.errors import ConfigError
from implanting.evaluation.approaches import Trial
from implanting.evaluation.features import Features
from implanting.evaluation.rivals import check_rival, rival_method
from implanting.evaluation.task_images import TaskImages
from implanting.fewshot import (
    Method,
    Result,
    base_class_method,
    evaluate_tasks,
    joint_method,
    prototype_method,
    require_class_weights,
)
from implanting.implants import DecidedMethod, ImplantMethod, evaluate_poolings, fitting_of, implant_method
from implanting.runtime import Progress, silent


def compare(
    base: BaseNetwork,
    images: TaskImages,
    trials: Iterable[Trial],
    *,
    half: bool = False,
    cache: Path | None = None,
    progress: Progress = silent,
) -> Iterator[tuple[Trial, Result]]:
    """The result of each trial; a trial that is given twice has one result.

    Everything is checked by the call itself. The slow work is done when the results are iterated over.
    """
    wanted = list(dict.fromkeys(trials))
    for trial in wanted:
        check(base, images, trial)
    approaches = [trial.approach for trial in wanted]
    if cache is None:  # a cache holds all images, for the tasks of other calls as well
        images = images.without_unused()
    features = Features(base, images, approaches, half=half, cache=cache, progress=progress)
    features.check_cache()
    return _results_of(wanted, features)


def check(base: BaseNetwork, images: TaskImages, trial: Trial) -> None:
    """Refuse a trial that the base or the images do not allow, or whose tasks need more images than there are."""
    approach = trial.approach
    for image_set in images.tested(approach.classes):
        _require_fit(base, image_set)
    check_rival(base, images, trial)
    if approach.classes != "novel":
        require_class_weights(base)
        _require_base_classes(base, images.base)
    if approach.implants is not None:
        fitting_of(base, approach.pooling, approach.implants)  # or say why there can be no implants
    images.draw(trial)


def _require_fit(base: BaseNetwork, image_set: ImageSet) -> None:
    """Images must be large enough and, for a base trained with flatten, give as many locations as in training."""
    height, width = image_set.images.shape[1:3]
    found = base.map_size(height, width)
    if base.pooling == "flatten" and found != (trained := base.map_size(*base.preprocessing.image_size)):
        raise ConfigError(
            f"{image_set.name} has images of {width} x {height} px, {found[1]} x {found[0]} locations; {base.name} was "
            f"trained with flatten on {trained[1]} x {trained[0]} and can be tested on no other number: read the data "
            f"with image_size={base.preprocessing.image_size[0]}"
        )


def _require_base_classes(base: BaseNetwork, image_set: ImageSet) -> None:
    """Images of base classes must be of all base classes, in the same order."""
    if image_set.class_names != base.class_names:
        raise ConfigError(f"{image_set.name} has other classes than {base.name}: its base classes are needed")


def _results_of(trials: Sequence[Trial], features: Features) -> Iterator[tuple[Trial, Result]]:
    """Each trial with its result, in order, except that trials which train the same implants are together."""
    methods: dict[Hashable, Method] = {}
    for group in grouped(trials):
        for trial in group:
            if _same_method(trial) not in methods:
                methods[_same_method(trial)] = method_of(trial, features)
        results = _answered([methods[_same_method(trial)] for trial in group], group[0], features)
        yield from zip(group, results, strict=True)


def grouped(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Trials that train the same implants form one group; every other trial is a group of its own."""
    groups: dict[Hashable, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(_same_implants(trial), []).append(trial)
    return list(groups.values())


def _same_implants(trial: Trial) -> Hashable:
    """A key that is equal for trials that differ only in the pooling at test: they share trained implants."""
    approach = trial.approach
    if approach.implants is None or approach.decides:
        return trial
    views = InferenceConfig(support_views=approach.pooling.support_views)
    return replace(trial, approach=replace(approach, pooling=views))


def _same_method(trial: Trial) -> Hashable:
    """A key that is equal for trials that one method answers, at any number of shots; it keeps pooled features."""
    tasks = trial.tasks
    return trial.approach, replace(tasks, shot=1) if trial.approach.classes == "both" else tasks.seed


def method_of(trial: Trial, features: Features) -> Method:
    """The method that answers the tasks of a trial, pooled as is best for its base unless the trial says how."""
    base, images = features.base, features.images
    trial = replace(trial, approach=trial.approach.with_default(base.usage.pooling))
    approach = trial.approach
    if approach.method is not None:
        return rival_method(trial, features)
    if approach.classes == "base":
        return base_class_method(base, features.base_phi, approach.pooling)
    rows = approach.views * len(images.novel)
    if approach.classes == "both":
        base_tasks = images.base_tasks(trial.tasks)
        return joint_method(base, features.phi[:rows], features.base_phi, base_tasks, approach.pooling)
    if approach.implants is None:
        return prototype_method(base, features.phi[:rows], approach.pooling)
    activations = features.activations.first(rows)
    implants = implant_method(base, activations, approach.pooling, approach.implants, trial.tasks.seed)
    return DecidedMethod(implants) if approach.decides else implants


def _answered(methods: Sequence[Method], trial: Trial, features: Features) -> list[Result]:
    """The results of methods on the tasks of a trial; there are several if they share the same implants."""
    tasks = features.images.tasks_of(trial)
    classes = sum(len(image_set.class_names) for image_set in features.images.tested(trial.approach.classes))
    implants = [method for method in methods if isinstance(method, ImplantMethod)]
    if implants:
        return evaluate_poolings(implants, tasks, trial.tasks, classes, features.progress)
    return [evaluate_tasks(method, tasks, trial.tasks, classes, features.progress) for method in methods]
