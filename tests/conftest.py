"""For all tests: shape annotations are checked while they run, and one thread computes."""

import os
from importlib.util import find_spec
from pkgutil import iter_modules

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch is loaded; threads that wait do not spin

from jaxtyping import install_import_hook

# Before anything of implanting is imported. The commands are left out: they fill dataclasses with tyro's mark for
# "required", which is of no field's type, and have no shapes.
CHECKED = [
    f"implanting.{module.name}"
    for module in iter_modules(find_spec("implanting").submodule_search_locations)
    if module.name != "commands"
]
install_import_hook(CHECKED, "beartype.beartype")

import torch  # noqa: E402 (after the environment is set)

torch.set_num_threads(1)
