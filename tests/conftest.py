"""For all tests: shape annotations are checked while they run, and one thread computes."""

import os

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when torch is loaded: threads that wait must not spin

import torch
from jaxtyping import install_import_hook

install_import_hook("implanting", "beartype.beartype")  # before anything of implanting is imported
torch.set_num_threads(1)
