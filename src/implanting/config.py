"""Every setting with its default: the only home of a default.

Frozen dataclasses of plain values: the command line derives its flags and help from them, and a checkpoint stores
them as JSON. The text below a field is its help; a field without one takes that of the same field in `HELP_FROM`.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from implanting.errors import ConfigError

WIDE_CHANNELS = 16
"""Channels that WIDE adds to the last block: as many as implants add."""

MOST_MEMBERS = 16
"""Largest number of networks side by side."""

MEMORY_BUDGET = 4 * 2**30
"""Bytes of decoded images kept in memory; a larger set is memory-mapped from a temporary file."""

VIEWS = 6
"""Number of fixed views of an image: the image, its mirror image and four shifts."""

LARGEST_SIDE = 4096
"""Side in pixels beyond which no image is given to a network: a batch of them would not fit in any memory."""

MOST_STEPS = 10**9
"""Largest number of training steps or tasks; a larger one would take years and must be a typing error."""

SEEDS = 2**32
"""Seeds are 0 .. SEEDS - 1: PyTorch's generator on the CPU uses only 32 bits."""

Pooling = Literal["dense", "gap", "gmp", "flatten"]
NetworkName = Literal["resnet12", "c128f", "c64f"]

Precision = Literal["auto", "single", "bf16"]
TrainingMethod = Literal["cosine", "pn", "gidaris", "maml", "tadam"]
"""How a base network is trained: with a cosine classifier (the paper's stage 1), or as another system is."""

LOWERED: tuple[TrainingMethod, ...] = ("cosine", "pn", "tadam")
"""The methods whose network can be trained in bf16: it is frozen by gidaris, and too small for a gain with maml."""

CLASSIFYING: tuple[TrainingMethod, ...] = ("cosine", "gidaris")
"""The training methods that learn class weights of the base classes."""

MethodName = Literal[
    "prototypes",
    "implants",
    "random-implants",
    "last-block",
    "nearest",
    "simpleshot",
    "logistic",
    "baseline++",
    "imprinted",
    "pn",
    "gidaris",
    "maml",
    "tadam",
]
"""How tasks are answered."""

LinearMethod = Literal["logistic", "baseline++", "imprinted"]
"""The methods that are linear classifiers of one vector per image."""


def require(condition: bool, name: str, value: object, needed: str) -> None:
    """Raise a `ConfigError` that names the setting, unless the condition holds."""
    if not condition:
        raise ConfigError(f"`{name}` is {value}; it must be {needed}")


def _choices_of(kind: type[Any]) -> dict[str, tuple[Any, ...]]:
    """The values that `Literal` annotations list, by field."""
    listed = {}
    for name, hint in get_type_hints(kind).items():
        parts = (hint,) if get_origin(hint) is Literal else get_args(hint)
        values = [value for part in parts if get_origin(part) is Literal for value in get_args(part)]
        if values:
            listed[name] = (*values, *(None for part in parts if part is type(None)))
    return listed


def require_listed(config: Any) -> None:
    """Refuse values that a field's annotation does not list; from Python, nothing else checks them."""
    for name, values in _choices_of(type(config)).items():
        value = getattr(config, name)
        require(value in values, name, value, f"one of {', '.join(str(each) for each in values if each is not None)}")


def _require_seed(seed: int, name: str = "seed") -> None:
    require(0 <= seed < SEEDS, name, seed, f"from 0 to {SEEDS - 1}")


def require_side(size: int | None, name: str = "image_size") -> None:
    """Refuse a side in pixels that is none, or beyond all memory."""
    require(size is None or 1 <= size <= LARGEST_SIDE, name, size, f"from 1 to {LARGEST_SIDE}")


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
    """Add 16 channels to the last block (the paper's WIDE baseline)."""
    members: int = 1
    """Networks of this width side by side, whose features are joined; `implanting join` makes them of trained ones."""
    last_pool: bool = True
    """Max-pool after the last block too, as the paper does; without it there are four times as many locations."""

    def __post_init__(self) -> None:
        require_listed(self)
        require(1 <= self.width <= 2**16, "width", self.width, f"from 1 to {2**16}")
        require(1 <= self.members <= MOST_MEMBERS, "members", self.members, f"from 1 to {MOST_MEMBERS}")
        if self.wide and self.members > 1:
            raise ConfigError("`wide` adds channels to one network: leave it out, or set `members` to 1")


@dataclass(frozen=True)
class AugmentConfig:
    """Random changes to the training images, batch by batch."""

    crop_padding: int = 4
    """Pixels added on each side before a random crop of the original size; 0 disables crops."""
    crop_mode: Literal["reflect", "zero"] = "reflect"
    """The added pixels: a reflection of the image, or black."""
    flip: bool = True
    """Mirror half of the images."""
    jitter: float = 0.0
    """Strength of random changes of brightness, contrast and saturation; 0 disables them, 0.4 is usual."""

    def __post_init__(self) -> None:
        require_listed(self)
        require(self.crop_padding >= 0, "crop_padding", self.crop_padding, "0 or more")
        require(0 <= self.jitter <= 1, "jitter", self.jitter, "from 0 to 1")

    @property
    def changes_images(self) -> bool:
        """Whether there are any random changes."""
        return self.crop_padding > 0 or self.flip or self.jitter > 0


@dataclass(frozen=True)
class DataConfig:
    """The location of the images, and how they are read."""

    splits: str | None = None
    """Class lists for data that comes unsplit: fc100, cifar-fs, miniimagenet, or a JSON or csv FILE."""
    split_seed: int = 0
    """Seed that splits one folder of class folders into train, val and test classes."""
    image_size: int | None = None
    """Side in pixels to which images are resized; default: as stored, or 84 if stored sizes differ."""
    hold_out: int = 0
    """Images per base class that are held out of training, for a later evaluation on base classes."""

    def __post_init__(self) -> None:
        _require_seed(self.split_seed, "split_seed")
        require_side(self.image_size)
        require(self.hold_out >= 0, "hold_out", self.hold_out, "0 or more")


@dataclass(frozen=True)
class EpisodeConfig:
    """Training on episodes (small tasks of base classes), if --method is not cosine."""

    train_way: int = 5
    """Classes per episode; more than at test time may help prototypical networks."""
    train_shot: int = 5
    """Support images per class of an episode."""
    train_queries: int = 15
    """Query images per class of an episode."""
    episodes: int = 1
    """Episodes per step, summed over processes."""
    distance: Literal["euclidean", "cosine"] = "euclidean"
    """pn: negative squared Euclidean distance, or the cosine times a learned tau."""
    inner_steps: int = 5
    """maml: steps of gradient descent on the supports of an episode."""
    inner_test_steps: int = 10
    """maml: steps of gradient descent on the supports of a task at test time."""
    inner_learning_rate: float = 0.01
    """maml: learning rate of these steps."""
    first_order: bool = False
    """maml: ignore the second derivatives of the inner steps."""
    co_training: float = 0.9
    """tadam: share of steps on all base classes, to the power of the twentieths of training done; 0: no such step."""
    co_training_batch: int = 64
    """tadam: images per step on all base classes."""

    def __post_init__(self) -> None:
        require_listed(self)
        require(self.train_way >= 2, "train_way", self.train_way, "2 or more")
        for name in ("train_shot", "train_queries", "episodes", "inner_steps", "inner_test_steps", "co_training_batch"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        rate = self.inner_learning_rate
        require(0 < rate < math.inf, "inner_learning_rate", rate, "a number above 0")
        require(0 <= self.co_training < 1, "co_training", self.co_training, "from 0 to below 1")

    @property
    def images(self) -> int:
        """Images per step."""
        return self.episodes * self.train_way * (self.train_shot + self.train_queries)


@dataclass(frozen=True)
class PretrainConfig:
    """Stage 1: training on base classes, with a cosine classifier or as another system is trained."""

    architecture: NetworkConfig = field(default_factory=NetworkConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    data: DataConfig = field(default_factory=DataConfig)
    method: TrainingMethod = "cosine"
    """cosine: the paper's stage 1. pn, gidaris, maml, tadam: by episodes, as `implanting info --methods` describes."""
    episode: EpisodeConfig = field(default_factory=EpisodeConfig)
    start: str | None = None
    """A finished base network of the same shape (FILE or name) whose weights training starts from; gidaris needs it."""
    pooling: Pooling = "dense"
    """Input of the classifier: each location (dense), the pooled map (gap, gmp) or the map as one vector (flatten)."""
    tau: float = 10.0
    """Initial scale of the cosine, which is then learned."""
    optimizer: Literal["sgd", "adam"] = "sgd"
    """sgd uses Nesterov momentum 0.9; adam uses PyTorch's defaults."""
    learning_rate: float = 0.1
    """The highest learning rate of the schedule."""
    schedule: Literal["one-cycle", "steps"] = "one-cycle"
    """one-cycle: linear warm-up, then cosine to zero. steps: x0.06, x0.012, x0.0024 at 1/3, 2/3, 5/6 of training."""
    warmup: float = 0.2
    """Share of training in which one-cycle warms up."""
    weight_decay: float = 5e-4
    """Weight decay of convolutions and class weights; batch norm and tau have none."""
    teacher: str | None = None
    """A finished base network of the same classes (FILE or name) whose answers are learned as well as the labels."""
    teacher_share: float = 0.5
    """Share of the teacher's answers in the targets if --teacher is set; labels make up the rest."""
    rotation: float = 0.0
    """Share of images turned by 90, 180 or 270 degrees; a head that is dropped later learns to name the turn."""
    precision: Precision = "auto"
    """Numbers in the network: bf16 is about twice as fast on processors with instructions for it; auto: on GPUs."""
    batch_size: int = 128
    """Images per step, summed over processes."""
    epochs: float | None = None
    """Length of training in passes over the base images; set this or --iterations."""
    iterations: int | None = None
    """Length of training in steps; set this or --epochs."""
    shrink_size: int | None = None
    """Side in pixels to which images are shrunk in the first part of training, for speed; default: they are not."""
    shrink_share: float = 0.65
    """Share of training on shrunken images if --shrink-size is set; 0 disables shrinking."""
    seed: int = 0
    """Seed of the initial weights, the order of images and their augmentation."""
    validate_every: float = 1.0
    """Epochs between few-shot tests on the validation classes; 0 means only at the end."""
    validation_tasks: int = 500
    """Number of 5-way 5-shot tasks in each test on the validation classes; 0 disables validation."""
    save_every: float = 60.0
    """Seconds between checkpoints from which an interrupted run continues."""

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.iterations is None):
            raise ConfigError(
                "the length of training must be set by either `epochs` or `iterations`, not both: set one of them"
            )
        _require_seed(self.seed)
        require(0 <= self.warmup < 1, "warmup", self.warmup, "from 0 to below 1")
        require(0 <= self.teacher_share <= 1, "teacher_share", self.teacher_share, "from 0 to 1")
        require(0 <= self.rotation <= 1, "rotation", self.rotation, "from 0 to 1")
        if self.rotation and self.method != "cosine":
            raise ConfigError(f"`rotation` is for `method` cosine, and this is {self.method}: leave it out")
        if self.precision == "bf16" and self.method not in LOWERED:
            raise ConfigError(f"`precision` bf16 is for `method` {', '.join(LOWERED)}, and this is {self.method}")
        require(0 <= self.shrink_share <= 1, "shrink_share", self.shrink_share, "from 0 to 1")
        require_listed(self)
        if self.method != "cosine" and self.pooling == "dense":
            raise ConfigError(
                f"`method` {self.method} compares one vector per image: set `pooling` gap, gmp or flatten"
            )
        if self.method == "maml" and self.pooling != "flatten":
            raise ConfigError("`method` maml has a linear classifier over the whole map: set `pooling` flatten")
        if self.method != "cosine" and self.teacher is not None:
            raise ConfigError(f"`method` {self.method} cannot learn from a teacher: leave out `teacher`")
        if self.method == "gidaris" and self.start is None:
            raise ConfigError(
                "`method` gidaris trains the second stage on a base that has been through the first: name it by `start`"
            )
        if self.pooling == "flatten" and self.shrink_size is not None and self.shrink_share > 0:
            raise ConfigError("`pooling` flatten has weights for each location of one map: set `shrink_share` to 0")
        for name in ("weight_decay", "validate_every", "validation_tasks", "save_every"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        for name in ("batch_size", "tau", "learning_rate", "epochs", "iterations"):
            value = getattr(self, name)
            require(value is None or 0 < value <= MOST_STEPS, name, value, f"a number above 0, up to {MOST_STEPS}")


@dataclass(frozen=True)
class RecipeChanges:
    """Changes to the recipe of all base networks, for short trials or other data; default: the recipe's own values."""

    HELP_FROM: ClassVar[tuple[type, ...]] = (NetworkConfig, PretrainConfig)

    width: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    epochs: float | None = None
    iterations: int | None = None
    precision: Precision | None = None
    validation_tasks: int | None = None
    save_every: float | None = None

    def applied_to(self, config: PretrainConfig) -> PretrainConfig:
        """The configuration with these changes; a length in epochs replaces one in steps, and vice versa."""
        given = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        architecture = dataclasses.replace(config.architecture, width=given.pop("width", config.architecture.width))
        if given.keys() & {"epochs", "iterations"}:
            given = {"epochs": None, "iterations": None} | given
        return dataclasses.replace(config, architecture=architecture, **given)


@dataclass(frozen=True)
class ThreadsConfig:
    """How a command that uses only the CPU runs."""

    threads: int | None = None
    """CPU threads of this process; default: PyTorch's choice."""

    def __post_init__(self) -> None:
        require(self.threads is None or self.threads >= 1, "threads", self.threads, "1 or more")


@dataclass(frozen=True)
class RunConfig(ThreadsConfig):
    """How a command runs on this machine; the choice changes results only by rounding."""

    device: str = "auto"
    """auto (CUDA, Apple or CPU, in this order), or a PyTorch device such as cpu or cuda:1."""


@dataclass(frozen=True)
class TaskConfig:
    """The shape and number of few-shot tasks; together with an image set, it determines all of them."""

    way: int = 5
    """Classes per task."""
    shot: int = 5
    """Support images per class."""
    queries: int = 30
    """Query images per class."""
    tasks: int = 10_000
    """Number of tasks."""
    seed: int = 0
    """Seed of the tasks: task i depends only on the seed and i."""

    def __post_init__(self) -> None:
        _require_seed(self.seed)
        require(self.way >= 2, "way", self.way, "2 or more")
        for name in ("shot", "queries", "tasks"):
            require(1 <= getattr(self, name) <= MOST_STEPS, name, getattr(self, name), f"from 1 to {MOST_STEPS}")


@dataclass(frozen=True)
class InferenceConfig:
    """How supports and queries are pooled at test time."""

    support_pooling: Literal["gap", "gmp"] = "gap"
    """Pooling of a support's map into a vector."""
    query_pooling: Literal["gap", "gmp", "dense"] | None = None
    """Pooling of a query; default: dense for a densely trained base, otherwise gap."""
    support_views: int = 1
    """Fixed views of each support that prototypes average: 1 is the image, 2 adds its mirror image, 6 four shifts."""
    query_views: int = 1
    """The same views of each query, classified like further locations of it; by prototypes without implants only."""

    def __post_init__(self) -> None:
        require_listed(self)
        _require_views(self.support_views, "support_views")
        _require_views(self.query_views, "query_views")

    @property
    def views(self) -> int:
        """Views of each image that are read."""
        return max(self.support_views, self.query_views)


@dataclass(frozen=True)
class ImplantConfig:
    """Stage 2: training implants on leave-one-out subtasks of a task's supports."""

    implant_channels: int = 16
    """New channels per implanted layer (in ResNet-12, the convolutions of the last block)."""
    implant_epochs: int = 50
    """Number of full-batch steps of AdamW; with 0, implants stay as they were drawn (random implants)."""
    implant_learning_rate: float = 6e-3
    """Learning rate of AdamW; chosen on validation classes (docs/lab-log.md)."""
    implant_tau: float = 10.0
    """Fixed scale of the cosine, both while implants are trained and at test time."""
    implant_share: float | None = None
    """Largest share of the squared length of the supports' features that trained implants may have; a larger one is
    scaled down. 1: never, as in the paper. Default: chosen for each task on supports held out of a second training."""
    adapt_support_pooling: Literal["gap", "gmp"] = "gap"
    """Pooling of a support's map into a vector while implants are trained."""
    adapt_query_pooling: Literal["gap", "gmp", "dense"] = "gap"
    """Pooling of a left-out support while implants are trained."""
    adapt_views: int = 1
    """Fixed views of each support on which implants are trained; 2 or more make implants possible at 1 shot."""
    implant_decision: Literal["always", "held-out"] = "always"
    """always: implants in every task. held-out: except where held-out supports are clearly less likely with them."""
    decision_folds: int = 5
    """Number of parts into which each class's supports are divided; each part is held out in turn."""
    decision_margin: float = 1.0
    """Standard errors by which held-out supports must be less likely with implants for a task not to use them."""

    def __post_init__(self) -> None:
        require_listed(self)
        for name, fewest in (("implant_channels", 1), ("implant_epochs", 0)):
            value = getattr(self, name)
            require(fewest <= value <= MOST_STEPS, name, value, f"from {fewest} to {MOST_STEPS}")
        for name in ("implant_learning_rate", "implant_tau"):
            require(0 < getattr(self, name) < math.inf, name, getattr(self, name), "a number above 0")
        share = self.implant_share
        require(share is None or 0 < share <= 1, "implant_share", share, "above 0, up to 1")
        require(0 <= self.decision_margin < math.inf, "decision_margin", self.decision_margin, "a number, 0 or more")
        _require_views(self.adapt_views, "adapt_views")
        require(self.decision_folds >= 2, "decision_folds", self.decision_folds, "2 or more")


@dataclass(frozen=True)
class RivalConfig:
    """Settings of the other methods, chosen by --method; tuned on validation classes (docs/lab-log.md)."""

    logistic_strength: float = 3.0
    """logistic: the inverse of the penalty on the weights, as scikit-learn's C."""
    cosine_steps: int = 30
    """baseline++: full-batch steps on the supports."""
    cosine_learning_rate: float = 3e-4
    """baseline++: learning rate of AdamW."""
    block_steps: int = 10
    """last-block: full-batch steps on the leave-one-out subtasks of the supports."""
    block_learning_rate: float = 1e-4
    """last-block: learning rate of AdamW."""
    imprint_steps: int = 0
    """imprinted: steps of fine-tuning on base images and supports; 0 imprints only."""
    imprint_learning_rate: float = 1e-3
    """imprinted: learning rate of these steps."""

    def __post_init__(self) -> None:
        for name in ("cosine_steps", "block_steps", "imprint_steps"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        for name in ("logistic_strength", "cosine_learning_rate", "block_learning_rate", "imprint_learning_rate"):
            require(0 < getattr(self, name) < math.inf, name, getattr(self, name), "a number above 0")


@dataclass(frozen=True)
class ClassifierConfig:
    """A classifier of your own images."""

    base: str = "efficientnet-lite0"
    """The base network: efficientnet-lite0 (photos), efficientnet-lite2 or lite0+lite2 (photos, two and three times the
    cost), fc100 (32 px), miniimagenet (84 px), or a file written by `implanting pretrain`."""
    head: Literal["auto", "logistic", "prototypes"] = "auto"
    """How classes are told apart: a trained logistic head, prototypes (the paper's way), or auto: prototypes with
    implants, else the head."""
    method: Literal["auto"] | MethodName = "auto"
    """A method of `implanting info --methods` that needs no training of its own; auto: as --head and --implants say."""
    implants: Literal["auto"] | bool = "auto"
    """Train implants on the examples: True, False, or auto, which trains them if they helped on validation images."""
    unknown: str | None = None
    """Answer for images that fit no class; default: always answer with a class."""
    refuse: float = 0.05
    """Share of images of known classes that may be answered with --unknown by mistake."""
    keep_supports: bool = False
    """Keep the examples in the classifier, so that it can be trained again when classes change."""
    image_size: int | None = None
    """Side in pixels to which images are resized; default: that of the base network's training."""


RETIRED: dict[str, Any] = {"label_smoothing": 0.0, "validation_images": None}
"""Former settings of stage 1, with the value under which they trained as this version does; None: any value."""

RETIRED_VALUES: dict[str, Any] = {"schedule": "constant"}
"""Values of current settings that earlier versions had."""


def retired_settings(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a stored configuration under which this version can no longer train."""
    return {
        name: value
        for name, value in stored.items()
        if (name in RETIRED and RETIRED[name] is not None and RETIRED[name] != value)
        or (name in RETIRED_VALUES and RETIRED_VALUES[name] == value)
    }


Config = TypeVar("Config")


def config_from_dict(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """The inverse of `dataclasses.asdict` for the nested configurations above; retired settings are left out.

    A value of another type than its field's, or a setting that is unknown, is a `ValueError`.
    """
    try:
        return msgspec.convert(_known_settings(kind, values), kind)
    except msgspec.ValidationError as fault:
        raise ValueError(str(fault)) from None


def _known_settings(kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise ValueError(f"settings are {type(values).__name__}; expected names with their values")
    known = {field.name for field in dataclasses.fields(kind)}
    kept = {
        name: value
        for name, value in values.items()
        if name not in RETIRED and not (name in RETIRED_VALUES and RETIRED_VALUES[name] == value)
    }
    if unknown := sorted(kept.keys() - known):
        raise ValueError(f"the setting {unknown[0]} is unknown to this version")
    hints = get_type_hints(kind)
    return {
        name: _known_settings(hints[name], value) if dataclasses.is_dataclass(hints[name]) else value
        for name, value in kept.items()
    }


def flat(config: Any) -> dict[str, Any]:
    """All settings of a configuration by name, including those of nested configurations."""
    values: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        values |= flat(value) if dataclasses.is_dataclass(value) else {item.name: value}
    return values
