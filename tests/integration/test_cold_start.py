"""Commands for one's own photos load no more than they need: what is listed here takes longer than they do."""

import sys
from pathlib import Path

import pytest
from PIL import Image

from commands import implanting
from toys import coloured

NEEDLESS = {
    "scipy", "sklearn", "pandas", "matplotlib",  # scikit-learn alone takes longer to load than PyTorch
    "torch._dynamo", "torch._inductor", "sympy",  # PyTorch's compiler, which its optimisers load
    "onnx", "onnxruntime",
    "implanting.bench", "implanting.reproduce", "implanting.report", "implanting.pretraining",
}  # fmt: skip

RUN = "import sys; from implanting.cli import main; status = main(sys.argv[1:]); print(*sys.modules); sys.exit(status)"


def modules_of(*command: str) -> set[str]:
    return set(implanting(sys.executable, "-c", RUN, *command).stdout.splitlines()[-1].split())


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, shades = tmp_path_factory.mktemp("photos"), coloured(classes=2, per_class=3, size=32)
    for number, (image, label) in enumerate(zip(shades.images.numpy(), shades.labels.tolist(), strict=True)):
        path = folder / str(label) / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(image).save(path)
    return folder


def test_learning_and_predicting_load_nothing_needless(photos: Path, base_file: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "one.safetensors")
    settings = ["--base", str(base_file), "--implants", "True", "--out", out]
    fitting = modules_of("fit", str(photos), *settings)
    predicting = modules_of("predict", out, str(photos / "0"))
    assert {"torch", "implanting.implants.adaptation"} <= fitting & predicting  # the list is of what was loaded
    assert NEEDLESS & fitting == set()
    assert NEEDLESS & predicting == set()
