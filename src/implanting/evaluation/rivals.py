"""Methods other than prototypes and implants, by name: where each may be used, and which features it reads."""

from implanting.base import BaseNetwork
from implanting.baselines import (
    METHODS,
    BaseExamples,
    CosineFineTuningMethod,
    ImprintedMethod,
    JointQueries,
    LogisticMethod,
    NearestMethod,
    SimpleShotMethod,
    pooled,
    system_method,
    system_of,
)
from implanting.config import ImplantConfig, MethodName
from implanting.dense_classification import prototype_classifier
from implanting.errors import ConfigError
from implanting.evaluation.approaches import Approach, Trial
from implanting.evaluation.features import Features
from implanting.evaluation.task_images import TaskImages
from implanting.fewshot import Method, base_class_method
from implanting.implants import last_block_method, require_last_block

OF_THE_TASK_ALONE: tuple[MethodName, ...] = ("nearest", "logistic", "baseline++")
"""Methods that use nothing of the base but the vectors of a task's images, so that these can be pooled by gem."""

CENTRING: tuple[MethodName, ...] = ("prototypes", "implants", "random-implants", "last-block")
"""Methods whose supports and queries can be pooled by gem-centred."""


def check_rival(base: BaseNetwork, images: TaskImages, trial: Trial) -> None:
    """Refuse a method that the base, its classes or the images do not allow."""
    approach = trial.approach
    name: MethodName = approach.method or ("prototypes" if approach.implants is None else "implants")
    card = METHODS[name]
    if approach.pooling.support_pooling == "gem-centred":
        if name not in CENTRING:
            raise ConfigError(f"`method` {name} does not centre: set `support_pooling` and `query_pooling` to gem")
        prototype_classifier(base.pooling, 1.0, approach.pooling, base.mean_direction)  # or say why it cannot be
    if card.trained_by is not None and base.method != card.trained_by:
        raise ConfigError(
            f"`method` {name} needs a base that was trained by it, and {base.name} was not: make one with "
            f"`implanting pretrain` and `method` {card.trained_by}"
        )
    if base.method == "maml" and name != "maml":
        raise ConfigError(f"{base.name} was trained by maml and can be tested by `method` maml alone, not {name}")
    if approach.classes != "novel" and not card.joint:
        able = ", ".join(other for other, its in METHODS.items() if its.joint)
        raise ConfigError(
            f"`method` {name} classifies novel classes only; `classes` {approach.classes} is possible with {able}"
        )
    if name == "maml" and base.description is not None:
        trained = base.description.config.episode.train_way
        if trial.tasks.way != trained:
            raise ConfigError(
                f"{base.name} was trained by maml on {trained} classes per task, and these tasks have "
                f"{trial.tasks.way}: set `way` {trained}, or train with `train_way` {trial.tasks.way}"
            )
    if name == "last-block":
        require_last_block(base)
    if approach.reads_trained_images:
        images.require_trained(base, name)


def rival_method(trial: Trial, features: Features) -> Method:
    """The method that answers the tasks of a trial, if the trial names one."""
    approach, base, images = trial.approach, features.base, features.images
    joint = None
    if approach.classes == "base":
        return base_class_method(base, features.base_phi, approach.pooling)
    if approach.classes == "both":
        joint = JointQueries(pooled(features.base_phi, base.pooling), images.base_tasks(trial.tasks))
    if METHODS[_named(approach)].trained_by is not None:
        first = len(images.novel)
        return system_method(
            system_of(base),
            images.novel.images,
            base.preprocessing.normalisation,
            lambda: features.phi[:first],
            base.pooling,
            joint,
        )
    if approach.method == "last-block":
        activations = features.activations.first(len(images.novel))
        return last_block_method(base, activations, approach.pooling, ImplantConfig(), approach.rivals)
    return _on_frozen_features(approach, features, joint)


def _named(approach: Approach) -> MethodName:
    return approach.method or "prototypes"


def _on_frozen_features(approach: Approach, features: Features, joint: JointQueries | None) -> Method:
    base, rivals = features.base, approach.rivals
    by_gem = approach.pooling.support_pooling in ("gem", "gem-centred")
    generalised = by_gem and approach.method in OF_THE_TASK_ALONE
    vectors = features.generalised_vectors if generalised else features.vectors
    if approach.method == "nearest":
        return NearestMethod(vectors)
    if approach.method == "simpleshot":
        return SimpleShotMethod(vectors, features.trained_vectors.mean(0))
    if approach.method == "logistic":
        return LogisticMethod(vectors, rivals)
    if approach.method == "baseline++":
        return CosineFineTuningMethod(vectors, rivals)
    weights = base.class_weights if joint is not None or rivals.imprint_steps else None
    examples = None
    if rivals.imprint_steps and weights is not None:
        examples = BaseExamples(features.trained_vectors, features.trained.indices_by_class())
    return ImprintedMethod(vectors, base.tau, rivals, weights, examples, joint)
