"""Every method by its name: its citation, what it needs, and its limits.

The names are those of `--method`. The needs of a method are checked before any slow work.
"""

from dataclasses import dataclass

from implanting.config import MethodName


@dataclass(frozen=True)
class Card:
    """The citation and the needs of a method."""

    title: str
    citation: str
    needs: str
    trained_by: str | None = None
    """The value of `pretrain --method` that makes the base it is tested on; None if any base will do."""
    base_images: bool = False
    """Whether it reads images of the base classes that were trained on."""
    joint: bool = False
    """Whether it can also classify base classes, alone and together with novel ones."""
    fewest_shots: int = 1


PAPER = "Lifchitz et al. 2019, arXiv 1903.05050"

METHODS: dict[MethodName, Card] = {
    "prototypes": Card("prototypes of the base's own features", PAPER, "any base", joint=True),
    "implants": Card("implants, then prototypes", PAPER, "a base with described last layers; 2 shots", fewest_shots=2),
    "random-implants": Card(
        "implants that stay as they were drawn", PAPER, "a base with described last layers; 2 shots", fewest_shots=2
    ),
    "last-block": Card(
        "the last block fine-tuned on the leave-one-out cost of implants",
        f"{PAPER} (its argument against fine-tuning)",
        "a base of `pretrain`; 2 shots",
        fewest_shots=2,
    ),
    "nearest": Card("the nearest support by cosine", "Cover & Hart 1967", "any base"),
    "simpleshot": Card(
        "nearest class mean of centred features of unit length",
        "Wang et al. 2019, arXiv 1911.04623",
        "the images that the base was trained on",
        base_images=True,
    ),
    "logistic": Card(
        "logistic regression on features of unit length", "Tian et al. 2020, arXiv 2003.11539", "any base"
    ),
    "baseline++": Card("a cosine classifier trained on the supports", "Chen et al. 2019, arXiv 1904.04232", "any base"),
    "imprinted": Card(
        "imprinted weights, optionally fine-tuned",
        "Qi et al. 2018, arXiv 1712.07136",
        "any base; for base classes, class weights; for fine-tuning, the images that the base was trained on",
        joint=True,
    ),
    "pn": Card(
        "prototypical networks",
        "Snell et al. 2017, arXiv 1703.05175",
        "a base of `pretrain --method pn`",
        trained_by="pn",
    ),
    "gidaris": Card(
        "dynamic few-shot learning without forgetting",
        "Gidaris & Komodakis 2018, arXiv 1804.09458",
        "a base of `pretrain --method gidaris`",
        trained_by="gidaris",
        joint=True,
    ),
    "maml": Card(
        "model-agnostic meta-learning",
        "Finn et al. 2017, arXiv 1703.03400",
        "a base of `pretrain --method maml`; as many classes per task as in training",
        trained_by="maml",
    ),
    "tadam": Card(
        "task-dependent adaptive metric",
        "Oreshkin et al. 2018, arXiv 1805.10123",
        "a base of `pretrain --method tadam`",
        trained_by="tadam",
    ),
}
"""Every method of `evaluate`, by its name: title, citation and needs."""
