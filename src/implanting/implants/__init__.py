"""Stage 2: implants, new channels next to the frozen last block, trained on leave-one-out subtasks of the supports.

The frozen network runs once per image; its activations are kept, and all tasks read them. Tasks are the first axis of
every tensor, so a user's classifier is a batch of one task.
"""

from implanting.implants.activations import Activations, Supports, compute_activations, embed_together, encode
from implanting.implants.adaptation import WEIGHT_DECAY
from implanting.implants.by_decision import DecidedMethod
from implanting.implants.by_implants import ImplantMethod, evaluate_poolings, implant_method, tasks_together
from implanting.implants.by_last_block import last_block_method, require_last_block
from implanting.implants.cache import DESCRIPTION
from implanting.implants.fitting import Fitting, cross_fit_implants, fitting_of, widened
from implanting.implants.stream import EPSILON, Implant, Implants, activate, implant_tensors, implants_from_tensors

__all__ = [
    "DESCRIPTION",
    "EPSILON",
    "WEIGHT_DECAY",
    "Activations",
    "DecidedMethod",
    "Fitting",
    "Implant",
    "ImplantMethod",
    "Implants",
    "Supports",
    "activate",
    "compute_activations",
    "cross_fit_implants",
    "embed_together",
    "encode",
    "evaluate_poolings",
    "fitting_of",
    "implant_method",
    "implant_tensors",
    "implants_from_tensors",
    "last_block_method",
    "require_last_block",
    "tasks_together",
    "widened",
]
