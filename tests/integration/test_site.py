"""The static site, as `make docs` builds it: strictly, with all public names, and without another host."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import implanting

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once; a broken link or a name that is not found ends it."""
    folder = tmp_path_factory.mktemp("site")
    # not --quiet, which would make mkdocs overlook its own warnings
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_has_its_place(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")}
    assert {page.relative_to(site) for page in site.rglob("*.html")} == {*pages, Path("404.html")}
    start = (site / "index.html").read_text()
    assert all(f'href="{page}"' in start for page in pages - {Path("index.html")})


def test_the_reference_has_every_public_name(site: Path) -> None:
    reference = (site / "reference.html").read_text()
    shown = set(re.findall(r'<h\d id="implanting\.(\w+)"', reference))
    assert shown == set(implanting.__all__) - {"__version__"}


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    """Links may lead elsewhere; scripts, styles, fonts and images are all in the folder."""
    for page in site.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r'<(?:script|img|iframe|source)[^>]*\ssrc="([^"]+)"', text)
        loaded += re.findall(r'<link[^>]*\shref="([^"]+)"', text)
        assert loaded
        assert [address for address in loaded if "//" in address] == []
    for sheet in site.rglob("*.css"):
        assert not re.search(r"@import|url\(['\"]?(?:https?:)?//", sheet.read_text()), sheet
