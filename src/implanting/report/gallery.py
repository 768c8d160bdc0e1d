"""Pictures with their heat maps, embedded in the page."""

import base64
import io
from collections.abc import Iterable
from html import escape

import numpy as np
from PIL import Image

from implanting.heatmap import SCALE_LABELS, Explanation, Limits, Pixels, fit, overlay, percent, scale_colours
from implanting.report.contents import Shown

THUMBNAIL = 176
"""Longer side of a picture, in pixels."""

JPEG_QUALITY = 85

SCALE_STEPS = 9
"""Number of colours in the scale, between which a browser interpolates."""


def gallery(shown: Iterable[Shown]) -> str:
    """Render pictures with their heat maps."""
    cards = "".join(_card(one) for one in shown)
    return f"<div class=gallery>{cards}</div>" if cards else ""


def _card(shown: Shown) -> str:
    """Render an image, followed by its maps on one colour scale."""
    explanation = shown.explanation
    pictures = [figure(fit(explanation.image, THUMBNAIL), shown.truth, "true class")]
    maps = zip(explanation.overlays(THUMBNAIL), explanation.classes, explanation.probabilities, strict=True)
    pictures += [figure(picture, str(label), percent(float(probability))) for picture, label, probability in maps]
    if len(explanation.classes) == 2:
        first, second = map(str, explanation.classes)
        pictures.append(figure(_difference(explanation), "difference", f"{first} less {second}"))
    answer = "" if shown.answer in explanation.classes else f"<br>answer: {escape(shown.answer)}"
    return (
        f"<article><div class=pictures>{''.join(pictures)}</div>{scale(explanation)}"
        f"<p class=name>{escape(shown.name)}{answer}</p></article>"
    )


def _difference(explanation: Explanation) -> Pixels:
    """Subtract the second map from the first: red favours the first class, blue the second."""
    scores = explanation.map[0] - explanation.map[1]
    side, largest = max(explanation.image.shape[:2]), max(float(np.abs(scores).max()), 1e-6)
    box = explanation.box and explanation.box.scaled(THUMBNAIL / side)
    return overlay(fit(explanation.image, THUMBNAIL), scores, Limits(-largest, largest), box)


def figure(picture: Pixels, name: str, remark: str) -> str:
    """Render an embedded picture with the text below it."""
    name, remark = escape(name), escape(remark)
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=JPEG_QUALITY)
    data = base64.b64encode(file.getvalue()).decode("ascii")
    height, width = picture.shape[:2]
    return (
        f'<figure><img src="data:image/jpeg;base64,{data}" width={width} height={height} alt="{name}, {remark}" '
        f'loading="lazy"><figcaption title="{name}">{_breakable(name)}<br><small>{_breakable(remark)}</small>'
        "</figcaption></figure>"
    )


def _breakable(text: str) -> str:
    """Let long names break between their words: `Sooty_<wbr>Albatross`."""
    return text.replace("_", "_<wbr>")


def scale(explanation: Explanation) -> str:
    """Render the colour scale of a card."""
    limits = explanation.limits
    colours = ",".join(f"rgb({red} {green} {blue})" for red, green, blue in scale_colours(SCALE_STEPS))
    return (
        f'<div class=scale>{limits.low:.2f}<i style="background:linear-gradient(90deg,{colours})"></i>'
        f"{limits.high:.2f} {SCALE_LABELS[explanation.kind]}</div>"
    )
