"""An image of a report, and a page as a browser's parser sees it."""

from html.parser import HTMLParser

import numpy as np

from implanting.heatmap import Explanation
from implanting.report import Shown
from toys import noise

HOSTILE = "<script>alert('x')</script> & \"co\""


def shown(truth: str, answer: str, classes: tuple[str, ...]) -> Shown:
    maps = np.random.default_rng(0).random((len(classes), 2, 2)).astype(np.float32)
    likely = np.full(len(classes), 0.2, np.float32)
    likely[classes.index(answer) if answer in classes else 0] = 0.6
    explanation = Explanation(noise(32, 48, 3).numpy(), maps, classes, likely)
    return Shown.of(f"photos/{truth}/1.jpg", truth, answer, explanation)


VOID = {"meta", "img", "br", "wbr"}


class Page(HTMLParser):
    """Its tags with their attributes, its text, and the rows of its tables."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(data)
        if {"th", "td"} & set(self.open):
            self.tables[-1][-1][-1] += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]
