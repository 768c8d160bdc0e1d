"""The setting of a cell: which base network, how it was trained, how it is tested."""

from dataclasses import dataclass
from typing import Literal

from implanting.baselines import METHODS
from implanting.config import (
    ImplantConfig,
    InferenceConfig,
    MethodName,
    NetworkName,
    Pooling,
    RivalConfig,
    TrainingMethod,
)
from implanting.evaluation import Approach, Classes, approach_of

SupportPooling = Literal["gap", "gmp"]
QueryPooling = Literal["gap", "gmp", "dense"]

SHORT = {
    "gap": "GAP",
    "gmp": "GMP",
    "dense": "DC",
    "resnet12": "ResNet-12",
    "c128f": "C128F",
    "c64f": "C64F",
    "pn": "PN",
    "gidaris": "Gidaris & Komodakis",
    "maml": "MAML",
    "tadam": "TADAM",
}
"""The paper's short names."""


@dataclass(frozen=True)
class Stage1:
    """A base network: its architecture, and the pooling with which it was trained."""

    network: NetworkName
    pooling: Pooling
    wide: bool = False
    method: TrainingMethod = "cosine"
    """cosine: the paper's stage 1; else a system of `baselines`."""
    start: "Stage1 | None" = None
    """The base network that training starts from, where the system has a first stage of its own."""

    def __str__(self) -> str:
        if self.method != "cosine":
            return f"{SHORT[self.network]} {SHORT[self.method]}"
        return f"{SHORT[self.network]} {SHORT[self.pooling]}{' + WIDE' * self.wide}"


@dataclass(frozen=True)
class Setting:
    """A base network and a way to test it; equal settings are the same experiment, even in different tables."""

    stage1: Stage1
    shot: int
    support: SupportPooling
    query: QueryPooling
    classes: Classes = "novel"
    implants: ImplantConfig | None = None
    rival: MethodName | None = None
    """Another method on the features of this base network."""

    @property
    def inference(self) -> InferenceConfig:
        """How supports and queries are pooled at test."""
        return InferenceConfig(self.support, self.query, support_views=1)

    @property
    def approach(self) -> Approach:
        """How tasks with this number of shots are answered."""
        named = self.rival or (None if self.stage1.method == "cosine" else self.stage1.method)
        if named is not None:
            return approach_of(named, self.inference, paper_implants(), RivalConfig(), self.classes)
        return Approach(self.inference, self.implants, self.classes).reduced_to(self.shot)

    @property
    def poolings(self) -> str:
        """Support and query pooling at test, as the paper names them."""
        return f"{SHORT[self.support]}/{SHORT[self.query]}"

    @property
    def method(self) -> str:
        """The experiment in words, without its shots and classes."""
        if self.rival is not None:
            return f"{self.stage1}, {METHODS[self.rival].title}"
        if self.stage1.method != "cosine":
            return str(self.stage1)
        if self.implants is None:
            return f"{self.stage1} ({self.poolings})"
        adapt = self.implants
        stage2 = f"{SHORT[adapt.adapt_support_pooling]}/{SHORT[adapt.adapt_query_pooling]}"
        return f"{self.stage1} + IMP {stage2} ({self.poolings})"


def paper_implants(support: SupportPooling = "gap", query: QueryPooling = "gap") -> ImplantConfig:
    """The paper's stage 2; the learning rate and weight decay are ours, since the paper does not give them."""
    return ImplantConfig(
        implant_channels=16,
        implant_epochs=50,
        implant_tau=10.0,
        implant_share=1.0,
        adapt_support_pooling=support,
        adapt_query_pooling=query,
        adapt_views=1,
        implant_decision="always",
    )


RESNET_GAP, RESNET_GMP = Stage1("resnet12", "gap"), Stage1("resnet12", "gmp")
RESNET_DC, RESNET_WIDE = Stage1("resnet12", "dense"), Stage1("resnet12", "dense", wide=True)
C128F_GAP, C128F_DC = Stage1("c128f", "gap"), Stage1("c128f", "dense")
MAML, PN_C64F = Stage1("c64f", "flatten", method="maml"), Stage1("c64f", "flatten", method="pn")
GIDARIS = Stage1("c128f", "gap", method="gidaris", start=C128F_GAP)
PN_RESNET, TADAM = Stage1("resnet12", "gap", method="pn"), Stage1("resnet12", "gap", method="tadam")
