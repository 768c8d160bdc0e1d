"""Stage 2: implants trained on leave-one-out subtasks of a task's supports (Eqs. 11 and 12), for many tasks.

Each support is the query of a subtask whose prototypes are made of all the others. The cosine needs only inner
products, so no prototype is ever built for a query. With S_j the sum of class j's pooled supports, query i of class y
meets S_j of the other classes and S_y - v_i of its own, and

    <q_i, S_y - v_i> = <q_i, S_y> - <q_i, v_i>    |S_y - v_i|^2 = |S_y|^2 - 2 <S_y, v_i> + |v_i|^2.

(Dividing a prototype by the number of its supports does not change a cosine.) If a support image has several views, v_i
is the sum of all of them: they are left out together. The products of phi_wide = [base, implant] are those of the base,
computed once, plus those of the implants, computed again in each epoch.

The loss is summed over tasks: AdamW works element by element, so a step over stacked implants is a step of each task.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from implanting.config import ImplantConfig
from implanting.dense_classification import pool
from implanting.errors import ConfigError, DataError
from implanting.implants.activations import Supports
from implanting.implants.stream import Implants, Maps, new_implants
from implanting.networks import Tail
from implanting.runtime import AdamW

WEIGHT_DECAY = 1e-2
"""Weight decay of AdamW, PyTorch's default. Ten and a hundred times as much changed accuracy by 0.00 +- 0.05 and
+0.07 +- 0.14 points (5-shot, 200 tasks of FC100's validation classes, docs/lab-log.md)."""


@dataclass(frozen=True)
class Products:
    """The inner products from which leave-one-out cosines follow; they add up over groups of channels."""

    query_class: Float[Tensor, "task image location way"]
    """<q, S_j>"""
    query_own: Float[Tensor, "task image location"]
    """<q_i, v_i>, where v_i sums the views of query i's image"""
    query_query: Float[Tensor, "task image location"]
    class_class: Float[Tensor, "task way"]
    class_own: Float[Tensor, "task image"]
    """<S_y, v_i>"""
    own_own: Float[Tensor, "task image"]

    def __add__(self, other: "Products") -> "Products":
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Products(*(ours + theirs for ours, theirs in pairs))


def inner_products(
    phi: Maps,
    membership: Float[Tensor, "image way"],
    config: ImplantConfig,
    groups: Int[Tensor, " image"] | None = None,
) -> Products:
    """The products of one group of channels; `membership` is 1 where an image is a support of a class.

    Images with the same number in `groups` are left out together; without `groups`, each on its own.
    """
    queries = pool(phi, config.adapt_query_pooling)
    vectors = pool(phi, config.adapt_support_pooling).squeeze(2)
    sums = membership.mT @ vectors
    own_sums = membership @ sums
    left_out = vectors if groups is None else _sums_of_groups(vectors, groups)
    return Products(
        query_class=torch.einsum("tnld,twd->tnlw", queries, sums),
        query_own=(queries * left_out[:, :, None]).sum(-1),
        query_query=queries.square().sum(-1),
        class_class=sums.square().sum(-1),
        class_own=(own_sums * left_out).sum(-1),
        own_own=left_out.square().sum(-1),
    )


def _sums_of_groups(
    vectors: Float[Tensor, "task image dim"], groups: Int[Tensor, " image"]
) -> Float[Tensor, "task image dim"]:
    empty = vectors.new_zeros(len(vectors), int(groups.max()) + 1, vectors.shape[2])
    return empty.index_add(1, groups, vectors)[:, groups]


def queries_of(
    labels: Int[Tensor, " image"], groups: Int[Tensor, " image"] | None
) -> tuple[Bool[Tensor, " image"], Int[Tensor, " image"] | None]:
    """The supports that can be left out because their class keeps another one, and the groups left out together.

    If no class has a second image, as in a 1-shot task, views take the place of images and are left out one by one.
    """
    of_class = labels.bincount()[labels]
    queried = of_class > (1 if groups is None else groups.bincount()[groups])
    if groups is not None and not queried.any():
        return of_class > 1, None
    return queried, groups


def leave_one_out_scores(
    products: Products, membership: Float[Tensor, "image way"], tau: float
) -> Float[Tensor, "task image location way"]:
    """s_tau of every query with the prototypes of all classes; the prototype of its own class is made without it."""
    own = membership.bool()[:, None]
    own_class = (products.class_class[:, None] * membership).sum(-1)
    rest = (own_class - 2 * products.class_own + products.own_own)[:, :, None, None]
    norms = torch.where(own, rest, products.class_class[:, None, None])
    dots = torch.where(own, products.query_class - products.query_own[..., None], products.query_class)
    return tau * dots * torch.rsqrt((norms * products.query_query[..., None]).clamp_min(1e-12))


def leave_one_out_loss(
    scores: Float[Tensor, "task image location way"], labels: Int[Tensor, " image"], queried: Bool[Tensor, " image"]
) -> Float[Tensor, ""]:
    """Cross-entropy of each left-out support: averaged over subtasks and locations, summed over tasks (Eqs. 11, 12)."""
    asked = scores[:, queried]
    targets = labels[queried][None, :, None].expand(asked.shape[:3])
    losses = F.cross_entropy(asked.flatten(0, 2), targets.flatten(), reduction="sum")
    return losses / (asked.shape[1] * asked.shape[2])


def adapt(supports: Supports, tail: Tail, config: ImplantConfig, generators: list[Generator]) -> Implants:
    """Train fresh implants for each task on its supports.

    A class with one support has a prototype but no query: without its only support it would have no prototype.
    """
    implants = new_implants(tail, supports.sizes, config.implant_channels, generators)
    base_maps, labels = supports.base_maps, supports.row_labels
    membership = F.one_hot(labels).to(supports.phi.dtype)
    queried, groups = queries_of(labels, supports.groups)
    if not queried.any():
        raise DataError(
            "implants need a class with two supports or more, or two views of each; every class has one: "
            "use prototypes alone"
        )
    constant = inner_products(supports.phi, membership, config, groups)
    parameters = [parameter.requires_grad_() for parameter in implants.parameters()]
    optimizer = AdamW(parameters, config.implant_learning_rate, WEIGHT_DECAY)
    for _ in range(config.implant_epochs):
        products = constant + inner_products(implants(base_maps), membership, config, groups)
        loss = leave_one_out_loss(leave_one_out_scores(products, membership, config.implant_tau), labels, queried)
        optimizer.step(torch.autograd.grad(loss, parameters))
    for parameter in parameters:
        parameter.requires_grad_(False)
    trained = constant + inner_products(implants.fix_statistics(base_maps), membership, config, groups)
    _require_finite(leave_one_out_scores(trained, membership, config.implant_tau), supports)
    return implants


def _require_finite(scores: Float[Tensor, "task image location way"], supports: Supports) -> None:
    """Refuse implants that have diverged: they would always answer the first class, which would look like a result."""
    diverged = int((~scores.isfinite()).flatten(1).any(1).sum())
    if not diverged:
        return
    if not all(bool(maps.isfinite().all()) for maps in (*supports.base_maps, supports.phi)):
        raise DataError(
            "the base network's activations are not finite: its weights are damaged, or they are too large for half "
            "precision"
        )
    raise ConfigError(
        f"implants diverged in {diverged} of the {len(scores)} tasks trained together (scores that are not finite): "
        "lower `implant_learning_rate`"
    )
