"""What `mkdocs.yml` cannot say by itself: mkdocs calls these functions while it builds the site."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from pygments.formatters import HtmlFormatter


def on_config(config: MkDocsConfig) -> None:
    """Put the pages of docs/decisions below "Decisions", in their order: a new one needs no second entry."""
    docs = Path(config.docs_dir)
    pages = [str(page.relative_to(docs)) for page in sorted(docs.glob("decisions/*.md"))]
    for entry in config.nav:
        if "Decisions" in entry:
            entry["Decisions"] = pages


def on_post_build(config: MkDocsConfig) -> None:
    """Write the colours of code, which come with Pygments: nothing is loaded from another host."""
    colours = HtmlFormatter(style="friendly").get_style_defs(".highlight")
    Path(config.site_dir, "code.css").write_text(colours)
