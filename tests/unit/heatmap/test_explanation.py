import io

import numpy as np
import pytest
from PIL import Image

from implanting.errors import ConfigError
from implanting.heatmap import Explanation, centre_square
from toys import noise


def explanation(size=(32, 32), map_size=(2, 2), names=("oak", "elm", "ash"), **further) -> Explanation:
    maps = np.random.default_rng(0).random((len(names), *map_size)).astype(np.float32)
    probabilities = np.array([0.2, 0.7, 0.1, 0.0, 0.0], np.float32)[: len(names)]
    return Explanation(noise(*size, 3).numpy(), maps, names, probabilities, **further)


def picture(shown: Explanation) -> Image.Image:
    return Image.open(io.BytesIO(shown._repr_png_()))


def test_the_top_classes_come_most_probable_first():
    whole = explanation()
    top = whole.top(2)
    assert top.classes == ("elm", "oak")
    np.testing.assert_array_equal(top.map, whole.map[[1, 0]])
    np.testing.assert_array_equal(top.probabilities, whole.probabilities[[1, 0]])


def test_one_class_is_taken_by_its_label():
    whole = explanation(names=(7, 8, 9))
    one = whole.only([9])
    assert one.classes == (9,)
    np.testing.assert_array_equal(one.map, whole.map[2:])


def test_a_class_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match="no class 'fir' to explain; the classes are oak, elm, ash"):
        explanation().only(["fir"])


def test_each_class_widens_the_picture_by_as_much():
    widths = [picture(explanation().top(count)).width for count in (1, 2, 3)]
    assert widths[2] - widths[1] == pytest.approx(widths[1] - widths[0], abs=1)
    assert widths[1] > widths[0]


@pytest.mark.parametrize(
    ("size", "map_size"), [((32, 32), (2, 2)), ((300, 20), (7, 7)), ((20, 300), (14, 14)), ((1, 1), (3, 5))]
)
def test_any_map_is_drawn_on_any_image(size, map_size):
    drawn = np.asarray(picture(explanation(size, map_size, box=centre_square(*size))).convert("RGB"))
    assert min(drawn.shape[:2]) > 200
    assert (drawn != drawn[..., :1]).any()


def test_any_name_is_drawn():
    """Warnings are errors: a glyph that is missing, or a formula that is none, would fail here."""
    names = ("n02129604_" * 9, "東北虎" * 9, "$5^ {", "\udcff <b>\n", "🐯 أسد שלום")
    tall, short = (picture(explanation(names=given)).height for given in (names, ("a", "b", "c", "d", "e")))
    assert tall > short


def test_overlays_have_the_side_asked_for_and_share_a_scale():
    shown = explanation((40, 20), names=("oak", "elm"))
    assert shown.overlays().shape == (2, 40, 20, 3)
    assert shown.overlays(100).shape == (2, 100, 50, 3)
    alone = shown.only(["oak"]).overlays()[0]
    assert (alone != shown.overlays()[0]).any()
    np.testing.assert_array_equal(shown.only(["oak"]).overlays(limits=shown.limits)[0], shown.overlays()[0])


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.JPEG", b"\xff\xd8"), ("a b.pdf", b"%PDF")])
def test_the_ending_of_a_path_is_the_format(tmp_path, name, begins):
    explanation().save(tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begins)


@pytest.mark.parametrize("name", ["a.txt", "a", "a.safetensors"])
def test_other_endings_are_refused_and_the_file_stays(tmp_path, name):
    (tmp_path / name).write_text("kept")
    with pytest.raises(ConfigError, match=r"end it in \.png"):
        explanation().save(tmp_path / name)
    assert (tmp_path / name).read_text() == "kept"


def test_a_place_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none/a\.png cannot be written \(No such file or directory\)"):
        explanation().save(str(tmp_path / "none" / "a.png"))
