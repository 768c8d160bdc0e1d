"""Every setting with its default: the only home of a default.

Frozen dataclasses of plain values: the command line makes its flags and help from them, and a checkpoint stores
them as JSON. The text under a field is its help; a field without one has that of the same field in `HELP_FROM`.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from implanting.errors import ConfigError

WIDE_CHANNELS = 16
"""Channels by which WIDE widens the last block, as many as the implants have."""

MEMORY_BUDGET = 4 * 2**30
"""Bytes of decoded images kept in memory; a larger set is memory-mapped from a temporary file."""

VIEWS = 6
"""Fixed views of an image that there are: itself, its mirror and four shifts."""

SEEDS = 2**32
"""Seeds are 0 .. SEEDS - 1: PyTorch's generator on the CPU looks at 32 bits only."""

Pooling = Literal["dense", "gap", "gmp", "flatten"]
NetworkName = Literal["resnet12", "c128f"]


def require(condition: bool, name: str, value: object, needed: str) -> None:
    """Refuse the value of a setting."""
    if not condition:
        raise ConfigError(f"`{name}` is {value}; it must be {needed}")


def _choices_of(kind: type[Any]) -> dict[str, tuple[Any, ...]]:
    """The values that each field of a configuration lists in its annotation, where it lists them."""
    listed = {}
    for name, hint in get_type_hints(kind).items():
        parts = (hint,) if get_origin(hint) is Literal else get_args(hint)
        values = [value for part in parts if get_origin(part) is Literal for value in get_args(part)]
        if values:
            listed[name] = (*values, *(None for part in parts if part is type(None)))
    return listed


def require_listed(config: Any) -> None:
    """Refuse a value that is none of those its field lists; nobody else checks them where no flag was parsed."""
    for name, values in _choices_of(type(config)).items():
        value = getattr(config, name)
        require(value in values, name, value, f"one of {', '.join(str(each) for each in values if each is not None)}")


def _require_seed(seed: int, name: str = "seed") -> None:
    """Refuse a seed that would be cut to another one."""
    require(0 <= seed < SEEDS, name, seed, f"from 0 to {SEEDS - 1}")


def _require_views(views: int, name: str) -> None:
    require(1 <= views <= VIEWS, name, views, f"from 1 to {VIEWS}")


@dataclass(frozen=True)
class NetworkConfig:
    """The embedding network."""

    network: NetworkName = "resnet12"
    """Embedding network."""
    width: int = 64
    """Channels of the first block (64 is the paper's); the other blocks scale with it."""
    wide: bool = False
    """Widen the last block by 16 channels (the paper's WIDE baseline)."""

    def __post_init__(self) -> None:
        require_listed(self)
        require(self.width >= 1, "width", self.width, "1 or more")


@dataclass(frozen=True)
class AugmentConfig:
    """Random changes to the training images, batch by batch."""

    crop_padding: int = 4
    """Pixels added on each side before a random crop of the original size; 0 switches crops off."""
    crop_mode: Literal["reflect", "zero"] = "reflect"
    """What the added pixels hold: the image reflected, or black."""
    flip: bool = True
    """Mirror half of the images."""
    jitter: float = 0.0
    """Strength of random brightness, contrast and saturation; 0 switches it off, 0.4 is usual."""

    def __post_init__(self) -> None:
        require_listed(self)
        require(self.crop_padding >= 0, "crop_padding", self.crop_padding, "0 or more")
        require(0 <= self.jitter <= 1, "jitter", self.jitter, "from 0 to 1")


@dataclass(frozen=True)
class DataConfig:
    """Where the images are and how they are read."""

    splits: str | None = None
    """Class lists for data that comes unsplit: fc100, cifar-fs, miniimagenet, or a JSON or csv FILE."""
    split_seed: int = 0
    """Seed by which one folder of class folders is split into train, val and test classes."""
    image_size: int | None = None
    """Side in pixels to which images are brought; default: as stored, or 84 where stored sizes differ."""
    hold_out: int = 0
    """Images of each base class kept out of training, for evaluation on base classes later."""

    def __post_init__(self) -> None:
        _require_seed(self.split_seed, "split_seed")
        require(self.image_size is None or self.image_size >= 1, "image_size", self.image_size, "1 or more")
        require(self.hold_out >= 0, "hold_out", self.hold_out, "0 or more")


@dataclass(frozen=True)
class PretrainConfig:
    """Stage 1: training on base classes with a cosine classifier."""

    architecture: NetworkConfig = field(default_factory=NetworkConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    data: DataConfig = field(default_factory=DataConfig)
    pooling: Pooling = "dense"
    """What is classified: each location (dense), the pooled map (gap, gmp) or all locations as one vector (flatten)."""
    tau: float = 10.0
    """Initial scale of the cosine; it is learned."""
    optimizer: Literal["sgd", "adam"] = "sgd"
    """sgd has Nesterov momentum 0.9; adam has PyTorch's defaults."""
    learning_rate: float = 0.1
    """The schedule's highest learning rate."""
    schedule: Literal["one-cycle", "steps"] = "one-cycle"
    """one-cycle: linear warm-up, then cosine to zero. steps: x0.06, x0.012, x0.0024 at 1/3, 2/3, 5/6 of training."""
    warmup: float = 0.2
    """Share of training over which one-cycle warms up."""
    weight_decay: float = 5e-4
    """On convolutions and class weights only, never on batch norm or tau."""
    teacher: str | None = None
    """A finished base network of the same classes (FILE or name) whose answers are learned beside the labels."""
    teacher_share: float = 0.5
    """Share of the teacher's answers in what is learned, where --teacher is set; labels are the rest."""
    batch_size: int = 128
    """Images per step, summed over processes."""
    epochs: float | None = None
    """Length of training in passes over the base images; set this or --iterations."""
    iterations: int | None = None
    """Length of training in steps; set this or --epochs."""
    shrink_size: int | None = None
    """Side in pixels to which the first part of training shrinks its images, for speed; default: it does not."""
    shrink_share: float = 0.65
    """Share of training on shrunken images, where --shrink-size is set; 0 switches it off."""
    seed: int = 0
    """Fixes initial weights, order and augmentation."""
    validate_every: float = 1.0
    """Epochs between few-shot tests on the validation classes; 0 tests at the end only."""
    validation_tasks: int = 500
    """5-way 5-shot tasks of each test on the validation classes; 0 switches validation off."""
    save_every: float = 60.0
    """Seconds between checkpoints from which an interrupted run continues."""

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.iterations is None):
            raise ConfigError("the length of training: set either `epochs` or `iterations`, not both and not neither")
        _require_seed(self.seed)
        require(0 <= self.warmup < 1, "warmup", self.warmup, "from 0 to below 1")
        require(0 <= self.teacher_share <= 1, "teacher_share", self.teacher_share, "from 0 to 1")
        require(0 <= self.shrink_share <= 1, "shrink_share", self.shrink_share, "from 0 to 1")
        require_listed(self)
        if self.pooling == "flatten" and self.shrink_size is not None and self.shrink_share > 0:
            raise ConfigError("`pooling` flatten has weights for each location of one map: set `shrink_share` 0")
        for name in ("weight_decay", "validate_every", "validation_tasks", "save_every"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        for name in ("batch_size", "tau", "learning_rate", "epochs", "iterations"):
            value = getattr(self, name)
            require(value is None or (value > 0 and math.isfinite(value)), name, value, "a number above 0")


@dataclass(frozen=True)
class RecipeChanges:
    """Changes to the recipe of all base networks, for short trials or other data; default: as the recipe has it."""

    HELP_FROM: ClassVar[tuple[type, ...]] = (NetworkConfig, PretrainConfig)

    width: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    epochs: float | None = None
    iterations: int | None = None
    validation_tasks: int | None = None
    save_every: float | None = None

    def applied_to(self, config: PretrainConfig) -> PretrainConfig:
        """The configuration with what was given; a length given in epochs or steps replaces the other."""
        given = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        architecture = dataclasses.replace(config.architecture, width=given.pop("width", config.architecture.width))
        if given.keys() & {"epochs", "iterations"}:
            given = {"epochs": None, "iterations": None} | given
        return dataclasses.replace(config, architecture=architecture, **given)


@dataclass(frozen=True)
class ThreadsConfig:
    """How a command runs that computes on the CPU only."""

    threads: int | None = None
    """CPU threads of this process; default: as many as PyTorch finds."""

    def __post_init__(self) -> None:
        require(self.threads is None or self.threads >= 1, "threads", self.threads, "1 or more")


@dataclass(frozen=True)
class RunConfig(ThreadsConfig):
    """How a command runs here; results agree within rounding whatever is chosen."""

    device: str = "auto"
    """auto (CUDA, Apple or CPU, in this order), or a PyTorch device such as cpu or cuda:1."""


@dataclass(frozen=True)
class TaskConfig:
    """The shape and number of few-shot tasks; together with an image set it fixes every one of them."""

    way: int = 5
    """Classes of a task."""
    shot: int = 5
    """Support images of each class."""
    queries: int = 30
    """Query images of each class."""
    tasks: int = 10_000
    """Number of tasks."""
    seed: int = 0
    """Task i is drawn from (seed, i) alone."""

    def __post_init__(self) -> None:
        _require_seed(self.seed)
        require(self.way >= 2, "way", self.way, "2 or more")
        for name in ("shot", "queries", "tasks"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")


@dataclass(frozen=True)
class InferenceConfig:
    """How supports and queries are pooled at test."""

    support_pooling: Literal["gap", "gmp"] = "gap"
    """How a support's map becomes a vector."""
    query_pooling: Literal["gap", "gmp", "dense"] | None = None
    """How a query is classified; default: dense for a densely trained base, else gap."""
    support_views: int = 1
    """Fixed views of each support that prototypes average: 1 the image, 2 with its mirror, 6 with four shifts."""

    def __post_init__(self) -> None:
        require_listed(self)
        _require_views(self.support_views, "support_views")


@dataclass(frozen=True)
class ImplantConfig:
    """Stage 2: training implants on leave-one-out subtasks of a task's supports."""

    implant_channels: int = 16
    """New channels beside every implanted layer; in ResNet-12 the convolutions of the last block."""
    implant_epochs: int = 50
    """Full-batch steps of AdamW."""
    implant_learning_rate: float = 6e-3
    """Learning rate of AdamW; chosen on validation classes (docs/lab-log.md)."""
    implant_tau: float = 10.0
    """Fixed scale of the cosine, while implants are trained and when they are tested."""
    adapt_support_pooling: Literal["gap", "gmp"] = "gap"
    """How a support's map becomes a vector while implants are trained."""
    adapt_query_pooling: Literal["gap", "gmp", "dense"] = "gap"
    """How a left-out support is classified while implants are trained."""
    adapt_views: int = 1
    """Fixed views of each support that implants are trained on; with 2 or more, implants can be trained at 1 shot."""
    implant_decision: Literal["always", "held-out"] = "always"
    """always: implants in every task. held-out: only where supports that were held out do not speak against them."""
    decision_folds: int = 5
    """Parts into which each class's supports are dealt, each held out in turn."""
    decision_margin: float = 1.0
    """Standard errors by which held-out supports must speak against implants for a task to do without them."""

    def __post_init__(self) -> None:
        require_listed(self)
        for name in ("implant_channels", "implant_epochs"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        for name in ("implant_learning_rate", "implant_tau"):
            require(0 < getattr(self, name) < math.inf, name, getattr(self, name), "a number above 0")
        require(0 <= self.decision_margin < math.inf, "decision_margin", self.decision_margin, "a number, 0 or more")
        _require_views(self.adapt_views, "adapt_views")
        require(self.decision_folds >= 2, "decision_folds", self.decision_folds, "2 or more")


@dataclass(frozen=True)
class ClassifierConfig:
    """A classifier for one's own images."""

    base: str = "efficientnet-lite0"
    """The base network: efficientnet-lite0 (photos), fc100 (32 px), or a file made by `implanting pretrain`."""
    head: Literal["auto", "logistic", "prototypes"] = "auto"
    """How classes are told apart: a trained logistic head, prototypes (the paper's way), or auto: prototypes with
    implants, else the head."""
    implants: Literal["auto"] | bool = "auto"
    """Train implants on the examples: True, False, or auto, which is where validation images showed that they help."""
    unknown: str | None = None
    """Label to answer where an image fits no class; default: always answer with a class."""
    refuse: float = 0.05
    """Share of images of known classes that may be answered with --unknown."""
    keep_supports: bool = False
    """Keep the examples in the classifier, so that it can be trained anew when classes change."""
    image_size: int | None = None
    """Side in pixels to which images are brought; default: that of the base network's training."""


RETIRED: dict[str, Any] = {"label_smoothing": 0.0, "validation_images": None}
"""Settings of stage 1 that earlier versions had, with the value that trains as this version does; None: any value."""

RETIRED_VALUES: dict[str, Any] = {"schedule": "constant"}
"""The same for a value of a setting that is still there."""


def retired_settings(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a stored configuration by which an earlier version trained as this one no longer can."""
    return {
        name: value
        for name, value in stored.items()
        if (name in RETIRED and RETIRED[name] not in (None, value)) or (name, value) in RETIRED_VALUES.items()
    }


Config = TypeVar("Config")


def config_from_dict(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """The inverse of `dataclasses.asdict` for the nested configurations above; retired settings are left out."""
    hints = get_type_hints(kind)
    nested = {
        name: config_from_dict(hints[name], value) if dataclasses.is_dataclass(hints[name]) else value
        for name, value in values.items()
        if name not in RETIRED and (name, value) not in RETIRED_VALUES.items()
    }
    return kind(**nested)


def flat(config: Any) -> dict[str, Any]:
    """The settings of a configuration and those nested in it, by name."""
    values: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        values |= flat(value) if dataclasses.is_dataclass(value) else {item.name: value}
    return values
