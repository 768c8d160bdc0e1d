import base64
import dataclasses
import io
import re

import pytest
from PIL import Image

from implanting.errors import ConfigError
from implanting.fewshot import Share
from implanting.report import Bin, write_report
from implanting.report.page import render
from toy_report import HOSTILE, Page


def test_every_tag_is_closed_and_no_name_becomes_one(report):
    page = Page(render(report))
    assert page.open == []
    assert "script" not in {tag for tag, _ in page.tags}
    assert HOSTILE in "".join(page.text)


def test_nothing_is_fetched_and_nothing_runs(report):
    source = render(report)
    page = Page(source)
    assert not re.search(r"https?:|//|@import|url\(|\son\w+=", re.sub(r"base64,[^\"]+", "", source))
    assert {"link", "iframe", "object", "a"}.isdisjoint(tag for tag, _ in page.tags)
    (policy,) = [meta["content"] for meta in page.named("meta") if "http-equiv" in meta]
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def test_pictures_are_within_the_page(report):
    pictures = Page(render(report)).named("img")
    assert len(pictures) == 4 * 4  # each image, two maps, and their difference
    for attributes in pictures:
        kind, data = attributes["src"].split(",")
        assert kind == "data:image/jpeg;base64"
        with Image.open(io.BytesIO(base64.b64decode(data, validate=True))) as picture:
            assert picture.size == (176, 117) == (int(attributes["width"]), int(attributes["height"]))


def test_accuracy_and_interval_are_told(report):
    text = " ".join(Page(render(report)).text)
    assert "57.1 %" in text
    assert "4 of 7 images" in text
    assert "95 % interval: 25.0 to 84.2 % (Wilson" in text
    assert "1.2+abc" in text


def test_the_matrix_comes_before_the_pictures_and_remarks_before_both(report):
    remarked = dataclasses.replace(report, remarks=[f"careful {HOSTILE}"], reliability=[Bin(0.8, Share(3, 4))])
    page = Page(render(remarked))
    tags = [tag for tag, _ in page.tags]
    assert tags.index("table") < tags.index("svg") < tags.index("img")
    text = "".join(page.text)
    assert text.index(f"careful {HOSTILE}") < text.index("Answers by class") < text.index("Wrong answers")


def test_names_of_classes_are_shown_whole(report):
    assert "ellipsis" not in render(report)


def test_long_names_break_between_their_words(report):
    explanation = dataclasses.replace(report.right[0].explanation, classes=("Sooty_Albatross", "elm"))
    named = dataclasses.replace(report.right[0], explanation=explanation)
    page = Page(render(dataclasses.replace(report, right=[named])))
    assert "Sooty_Albatross" in "".join(page.text)
    assert ("wbr", {}) in page.tags


def test_an_answer_of_none_is_told(report):
    text = "".join(Page(render(report)).text)
    assert "answer: none of these" in text


def test_parts_without_content_are_left_out(report):
    text = "".join(Page(render(dataclasses.replace(report, wrong=[]))).text)
    assert "Wrong answers" not in text
    assert "Right answers" in text


def test_it_fits_a_phone_and_the_dark(report):
    source = render(report)
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in Page(source).named("meta")
    assert "prefers-color-scheme: dark" in source


def test_names_that_are_no_text_can_be_written(report, tmp_path):
    write_report(dataclasses.replace(report, title="a\udcff"), tmp_path / "report.html")
    assert "<h1>a?</h1>" in (tmp_path / "report.html").read_text()


def test_a_place_that_is_not_there_is_named(report, tmp_path):
    with pytest.raises(ConfigError, match=r"report\.html cannot be written \(No such file"):
        write_report(report, tmp_path / "none" / "report.html")
