"""The Python and the commands of the how-tos, run as they stand but for sizes that make them quick."""

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image
from torch import nn

from commands import implanting, write_fc100
from implanting import (
    BaseNetwork,
    FewShotClassifier,
    Normalisation,
    Preprocessing,
    evaluate,
    load_base,
    read_dataset,
    read_folder,
)
from implanting.datasets import read_class_lists
from toy_photos import write_photos
from toys import coloured

DOCS = Path(__file__).parents[2] / "docs"
SMALL = {
    "pretrain": ["--width", "4", "--epochs", "1", "--validation-tasks", "5", "--batch-size", "8"],
    "evaluate": ["--tasks", "6", "--implant-epochs", "2"],
    "fit": [],
    "join": [],
}
"""What is put behind a command of each verb, in place of the page's own settings."""

TAUGHT = ("flower", "temple")
"""The first two classes of the tutorial."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the page's commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def python_of(page: str) -> str:
    (program,) = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return program


def commands_of(page: str) -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def run(command: list[str]) -> str:
    program, verb, *settings = command
    return implanting(sys.executable, "-m", program, verb, *settings, *SMALL[verb]).stdout


def write_class_folders(folder: Path, classes: int, images: int) -> None:
    image_set = coloured(classes=classes, per_class=images, size=40, prefix=f"{folder.name} ")
    for number, (image, label) in enumerate(zip(image_set.images.numpy(), image_set.labels.tolist(), strict=True)):
        place = folder / image_set.class_names[label]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number}.png")


def heading(line: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")


@pytest.mark.parametrize("page", [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        headings = [heading(line) for line in target.read_text().splitlines() if line[:1] == "#"] if anchor else []
        assert not anchor or anchor in headings, link


def test_the_tutorial(folder: Path) -> None:
    photos, from_python = re.findall(r"```python\n(.*?)```", (DOCS / "tutorial.md").read_text(), re.DOTALL)
    implanting(sys.executable, "-c", photos)
    printed = [implanting(sys.executable, "-m", *command).stdout for command in commands_of("tutorial.md")]
    flower, temple = (next(line for line in printed[1].splitlines() if f"new/{name}" in line) for name in TAUGHT)
    assert "│ flower │" in flower
    assert "│ temple │" in temple
    assert (folder / "heat.jpg").stat().st_size > 10_000
    assert "digit 1.00" in printed[4]
    answers = implanting(sys.executable, "-c", from_python).stdout
    assert answers.startswith("['digit' 'flower' 'temple'] ['flower' 'digit']\n[[")


def test_the_python_on_own_networks() -> None:
    answers = implanting(sys.executable, "-c", python_of("own-network.md")).stdout
    assert re.fullmatch(r"\['(oak|elm)' '(oak|elm)'\] \(1, 16, 16\)\n", answers)


def test_the_python_on_own_images(folder: Path) -> None:
    write_photos(folder)
    implanting(sys.executable, "-c", python_of("own-images.md"))
    classifier = FewShotClassifier.load("trees.safetensors")
    assert classifier.classes_.tolist() == ["ash", "birch", "elm", "oak"]
    assert classifier.predict(["elm-photos/7.jpg", "photos/labelled/oak/5.jpg"]).tolist() == ["elm", "oak"]


def test_checking_and_suggesting(folder: Path) -> None:
    write_photos(folder)
    checked, fitted, suggested = (
        implanting(sys.executable, "-m", *command).stdout for command in commands_of("check-and-suggest.md")
    )
    assert "accuracy to expect: 100.0 %" in checked
    assert "accuracy to expect: 100.0 %" in fitted
    assert "5 of 12 photos" in suggested
    assert implanting(sys.executable, "-c", python_of("check-and-suggest.md")).stdout.startswith("100.0 % (")


def test_very_many_images(folder: Path) -> None:
    write_photos(folder)
    shutil.copytree("photos/labelled/oak", "archive/oak")
    shutil.copy("a.jpg", "archive/a.jpg")
    Path("archive/damaged.jpg").write_bytes(b"no image")
    FewShotClassifier("fc100", implants=False).fit(*read_folder("photos/support")).save("trees.safetensors")
    whole, *parts = (implanting(sys.executable, "-m", *command).stdout for command in commands_of("bulk.md"))
    assert whole.startswith("answers.csv: 6 images, 1 of them unreadable, ")
    assert [part.split(",")[0] for part in parts] == [f"answers-{n}-of-2.csv: 3 images" for n in (1, 2)]


def test_evaluating_and_a_method_of_ones_own(folder: Path, base_file: Path) -> None:
    data = folder / "data" / "FC100"
    data.mkdir(parents=True)
    write_fc100(data, images=42)
    shutil.copy(base_file, "base.safetensors")
    printed = [run(command) for command in commands_of("evaluate.md")]
    assert commands_of("methods.md") == [commands_of("evaluate.md")[1]]
    assert ["gain" in text for text in printed] == [True, True, False, True]
    assert list(folder.glob("activations/*.npy"))
    pixels, network, difference = implanting(sys.executable, "-c", python_of("evaluate.md")).stdout.splitlines()
    novel = read_dataset("data/FC100", "val")
    bare = nn.Sequential(nn.Flatten(), nn.Unflatten(1, (3 * 32 * 32, 1, 1)))
    preprocessing = Preprocessing(image_size=(32, 32), normalisation=Normalisation((0.5,) * 3, (1.0,) * 3))
    expected = evaluate(BaseNetwork.from_module(bare, preprocessing, name="pixels", tau=10.0), novel, shot=5, tasks=6)
    assert pixels == f"pixels: {expected.estimate}"
    assert network.removeprefix("base network: ") in printed[2]
    assert difference.startswith("difference, paired: ")


def test_training_a_base(folder: Path) -> None:
    write_photos(folder)
    write_class_folders(folder / "plants" / "train", classes=6, images=4)
    write_class_folders(folder / "plants" / "val", classes=5, images=20)
    printed = [run(command) for command in commands_of("train-a-base.md")]
    trained, tested, by_default, fitted, taught, centred, joined = printed
    assert "validation classes" in trained
    assert "validation classes" in taught
    assert "2 x resnet12" in joined
    assert "resnet12 of width" in centred
    assert load_base("plants-gem.safetensors").usage.pooling == "gem-centred"
    assert "gain" in tested
    assert "gain" in by_default
    assert "3 classes" in fitted
    assert FewShotClassifier.load("classifier.safetensors").base_.preprocessing.square_size == 84


def test_the_flowers_of_the_model_cards(folder: Path) -> None:
    (folder / "docs").symlink_to(DOCS)
    for name in read_class_lists(DOCS / "flowers-102.json")["test"]:
        write_class_folders(folder / "flowers" / name, classes=1, images=25)
    *_, command = commands_of("bases.md")  # the quickest, which reads the same class lists as the others
    assert "of its 12 classes" in " ".join(run(command).split())
