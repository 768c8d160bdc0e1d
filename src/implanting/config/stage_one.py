"""Settings of stage 1: the network, its data and its training."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from implanting.config.checking import MOST_MEMBERS, MOST_STEPS, require, require_listed, require_seed, require_side
from implanting.config.names import LOWERED, NetworkName, Pooling, Precision, TrainingMethod
from implanting.errors import ConfigError

WIDE_CHANNELS = 16
"""Channels that WIDE adds to the last block: as many as implants add."""


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
        require_seed(self.split_seed, "split_seed")
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
    mixup: float = 0.0
    """Images are mixed in pairs, and so are their labels, with shares drawn from Beta(m, m); 0: not; 0.2 is usual."""
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
        require_seed(self.seed)
        require(0 <= self.warmup < 1, "warmup", self.warmup, "from 0 to below 1")
        require(0 <= self.teacher_share <= 1, "teacher_share", self.teacher_share, "from 0 to 1")
        require(0 <= self.rotation <= 1, "rotation", self.rotation, "from 0 to 1")
        require(0 <= self.mixup <= 10, "mixup", self.mixup, "from 0 to 10")
        for name in ("rotation", "mixup"):
            if getattr(self, name) and self.method != "cosine":
                raise ConfigError(f"`{name}` is for `method` cosine, and this is {self.method}: leave it out")
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
