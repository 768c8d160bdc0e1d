"""The setting of a cell: which base network, how it was trained, how it is tested."""

from dataclasses import dataclass
from typing import Literal

from implanting.config import ImplantConfig, InferenceConfig, NetworkName
from implanting.evaluation import Approach, Classes

SupportPooling = Literal["gap", "gmp"]
QueryPooling = Literal["gap", "gmp", "dense"]

SHORT = {"gap": "GAP", "gmp": "GMP", "dense": "DC", "resnet12": "ResNet-12", "c128f": "C128F"}
"""The paper's short names."""


@dataclass(frozen=True)
class Stage1:
    """A base network: its architecture, and the pooling with which it was trained."""

    network: NetworkName
    pooling: QueryPooling
    wide: bool = False

    def __str__(self) -> str:
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

    @property
    def inference(self) -> InferenceConfig:
        """How supports and queries are pooled at test."""
        return InferenceConfig(self.support, self.query, support_views=1)

    @property
    def approach(self) -> Approach:
        """How tasks with this number of shots are answered."""
        return Approach(self.inference, self.implants, self.classes).reduced_to(self.shot)

    @property
    def poolings(self) -> str:
        """Support and query pooling at test, as the paper names them."""
        return f"{SHORT[self.support]}/{SHORT[self.query]}"

    @property
    def method(self) -> str:
        """The experiment in words, without its shots and classes."""
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
        adapt_support_pooling=support,
        adapt_query_pooling=query,
        adapt_views=1,
        implant_decision="always",
    )


RESNET_GAP, RESNET_GMP = Stage1("resnet12", "gap"), Stage1("resnet12", "gmp")
RESNET_DC, RESNET_WIDE = Stage1("resnet12", "dense"), Stage1("resnet12", "dense", wide=True)
C128F_GAP, C128F_DC = Stage1("c128f", "gap"), Stage1("c128f", "dense")
