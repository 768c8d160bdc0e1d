"""For all tests: shape annotations are checked while they run, and one thread computes."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from implanting.base import BaseNetwork

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch is loaded; threads that wait do not spin

from jaxtyping import install_import_hook

# Before anything of implanting is imported. The commands are left out: they fill dataclasses with tyro's mark for
# "required", which is of no field's type, and have no shapes. So are the routes of the service: FastAPI fills them with
# files of another class than the one that it asks to be named.
CHECKED = [
    f"implanting.{module.name}"
    for module in iter_modules(find_spec("implanting").submodule_search_locations)
    if module.name not in ("cli", "serve")
] + [f"implanting.serve.{name}" for name in ("learner", "learning", "pictures", "reader", "store")]
install_import_hook(CHECKED, "beartype.beartype")

import pytest  # noqa: E402 (after the environment is set)
import torch  # noqa: E402 (likewise)

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def same_weights() -> None:
    """Networks that a test builds have the same initial weights in every run, whatever ran before it."""
    torch.manual_seed(0)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Two threads compute, or as many as the test then says; afterwards one again."""
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.fixture
def in_float64() -> Iterator[None]:
    """What the test draws and the code makes is of double precision.

    For training, which enlarges rounding: Adam moves a weight by the sign of its gradient, however small that is. Two
    ways to train come apart in float32 sooner or later, on one processor or another; in float64 they stay together to
    many digits, so that these tell right from wrong.
    """
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="session")
def base_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small base network as `implanting pretrain` leaves it."""
    from toys import write_trained_base

    return write_trained_base(tmp_path_factory.mktemp("base") / "base.safetensors")


@pytest.fixture(scope="session")
def base(base_file: Path) -> "BaseNetwork":
    """The same, loaded."""
    from implanting.base import load_base

    return load_base(base_file)
