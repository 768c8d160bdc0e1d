"""The stand-alone page in a real browser, opened as a file: it answers as the service that exported it."""

import base64
import csv
import io
import os
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, expect
from skimage import data

from implanting.base import BaseNetwork
from implanting.images import resize
from service import serving

CLASSES = ("cat", "coffee", "rocket")
NEAR = 1e-3


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four photos per class, in this order, then strangers and files that are decoded in ways of their own."""
    folder, generator = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    pictures = [Image.fromarray(one()[..., :3]) for one in (data.cat, data.coffee, data.rocket, data.astronaut)]
    paths = []
    for number, picture in enumerate([picture for picture in pictures[:3] for _ in range(4)]):
        left, top = (int(generator.integers(side // 3)) for side in picture.size)
        piece = picture.crop((left, top, left + 2 * picture.width // 3, top + 2 * picture.height // 3))
        paths.append(folder / f"{number:02}.jpg")
        piece.resize((300, 360) if number % 2 else (411, 300)).save(paths[-1])
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    pictures[3].save(folder / "stranger.jpg")
    pictures[0].save(folder / "turned.jpg", exif=exif)
    pictures[1].convert("RGBA").resize((333, 222)).save(folder / "glass.png")
    Image.effect_mandelbrot((300, 300), (-2, -1.5, 1, 1.5), 100).save(folder / "grey.png")
    pictures[1].resize((1350, 901)).save(folder / "large.jpg")  # Pillow decodes a half of it
    odd = ("stranger.jpg", "turned.jpg", "glass.png", "grey.png", "large.jpg")
    return [*paths, *(folder / name for name in odd)]


def test_the_page_answers_as_the_service_that_exported_it(
    browser: Browser, photo_base: BaseNetwork, photos: list[Path], tmp_path: Path
) -> None:
    with serving(tmp_path / "data", photo_base) as client:
        project = client("POST", "/projects", json={"name": "Breakfast and cats"})["id"]
        for number, name in enumerate(CLASSES):
            made = client("POST", f"/projects/{project}/classes", json={"name": name})["id"]
            client.add(project, {path.name: path.read_bytes() for path in photos[4 * number : 4 * number + 4]}, made)
        exported = client("POST", f"/projects/{project}/exports/html")
        assert exported["same_answers"] == exported["photos"] == 12
        content = client("GET", f"/projects/{project}/exports/classifier.html")
        sent = [("files", (path.name, path.read_bytes())) for path in photos]
        expected = client("POST", f"/projects/{project}/predict", files=sent)["answers"]
    (tmp_path / "classifier.html").write_bytes(content)
    (tmp_path / "text.jpg").write_text("no photo")
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    complaints: list[str] = []
    page.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((tmp_path / "classifier.html").as_uri())
    expect(page).to_have_title("Breakfast and cats")
    expect(page.locator("#choose")).to_be_enabled(timeout=120_000)
    page.set_input_files("#files", [*photos, tmp_path / "text.jpg"])
    expect(page.locator(".verdict")).to_have_count(len(photos), timeout=120_000)
    expect(page.locator(".wrong")).to_have_text("This browser cannot read it as a picture.", timeout=60_000)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text("utf-8-sig"))))
    assert [row["photo"] for row in rows] == [path.name for path in photos]
    for row, answer in zip(rows, expected, strict=True):
        assert row["answer"] == answer["answer"]
        for one in answer["probabilities"]:
            assert float(row[one["name"]]) == pytest.approx(one["probability"], abs=NEAR)
    assert rows[12]["answer"] == "none of these"
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    if folder := os.environ.get("SCREENSHOTS"):
        page.set_viewport_size({"width": 1100, "height": 900})
        page.screenshot(path=Path(folder) / "serve-stand-alone.jpg", type="jpeg", quality=82)
    page.close()
    assert complaints == []


def test_a_large_jpeg_is_drafted_as_by_libjpeg(browser: Browser) -> None:
    """The means of squares of its pixels are the pixels that Pillow's draft mode decodes, but for rounding."""
    module = (files("implanting.export") / "browser" / "resizing.js").read_text("utf-8")
    page, file = browser.new_page(), io.BytesIO()
    Image.fromarray(data.coffee()[:, :, :3]).save(file, "JPEG", quality=90, subsampling=0)
    pixels = np.asarray(Image.open(file).convert("RGBA"))
    height, width = pixels.shape[:2]
    for wanted in (200, 100, 50, 300):
        found, across = page.evaluate(
            """async ([module, content, width, height, wanted]) => {
                const { drafted } = await import(URL.createObjectURL(new Blob([module], { type: "text/javascript" })));
                const data = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
                const small = drafted({ data, width, height }, wanted);
                let red = "";
                for (let at = 0; at < small.data.length; at += 4) red += String.fromCharCode(small.data[at]);
                return [btoa(red), small.width];
            }""",
            [module, base64.b64encode(pixels.tobytes()).decode(), width, height, wanted],
        )
        draft = Image.open(file)
        draft.draft(None, (wanted, wanted))
        expected = np.asarray(draft)[..., 0].astype(int)
        red = np.frombuffer(base64.b64decode(found), np.uint8).reshape(-1, across).astype(int)
        assert red.shape == expected.shape
        assert np.abs(red - expected).mean() < 0.5
    page.close()


def test_photos_are_resized_bit_for_bit_as_by_pillow(browser: Browser) -> None:
    """Landscape, portrait, nearly square and very high, larger and smaller than what the network sees."""
    module = (files("implanting.export") / "browser" / "resizing.js").read_text("utf-8")
    generator, page = np.random.default_rng(0), browser.new_page()
    for width, height, size in [(96, 61, 32), (61, 96, 32), (37, 80, 64), (33, 32, 32), (90, 117, 64), (30, 300, 16)]:
        pixels = generator.integers(0, 256, (height, width, 4), dtype=np.uint8)
        found = page.evaluate(
            """async ([module, content, width, height, size]) => {
                const { resized } = await import(URL.createObjectURL(new Blob([module], { type: "text/javascript" })));
                const data = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
                return [...resized({ data, width, height }, size)];
            }""",
            [module, base64.b64encode(pixels.tobytes()).decode(), width, height, size],
        )
        expected = resize(Image.fromarray(pixels[..., :3].copy()), size)
        np.testing.assert_array_equal(np.array(found, dtype=np.uint8).reshape(size, size, 3), expected)
    page.close()
