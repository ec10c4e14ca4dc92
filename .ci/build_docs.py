"""The README and the pages of ``docs/`` as plain HTML in a folder: ``make docs``. Needs no network.

markdown-it comes with Textual, so that nothing has to be installed for it.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parent.parent
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "pre,code{font-family:ui-monospace,monospace;background:#f4f4f4}pre{padding:.7em;overflow:auto}"
    "table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left}img{max-width:100%}"
)
_LINK = re.compile(r'(href=")(?!https?:)([^"#]*?)([^"/#]+)\.md(#[^"]*)?(")')


def build(site: Path) -> list[Path]:
    """Write the site; its pages."""
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
    menu = " · ".join(f'<a href="{{up}}{_place(page)}">{page.stem}</a>' for page in pages)
    pages += sorted((ROOT / "benchmarks" / "results").glob("*.md"))
    built = []
    for page in pages:
        target = site / _place(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * len(page.relative_to(ROOT).parent.parts)
        body = _LINK.sub(_as_html, markdown.render(page.read_text(encoding="utf-8")))
        target.write_text(
            f"<!doctype html><meta charset=utf-8><title>warplens: {page.stem}</title><style>{_STYLE}</style>"
            f"<nav>{menu.replace('{up}', up)}</nav>{body}\n", encoding="utf-8",
        )
        built.append(target)
    shutil.copytree(ROOT / "docs" / "img", site / "docs" / "img", dirs_exist_ok=True)
    (site / "samples").mkdir(exist_ok=True)
    shutil.copy(ROOT / "samples" / "demo.ipynb", site / "samples")
    return built


def _place(page: Path) -> str:
    """Where the page is in the site."""
    place = page.relative_to(ROOT)
    return str(place.with_name("index.html") if page.name == "README.md" else place.with_suffix(".html"))


def _as_html(link: re.Match[str]) -> str:
    before, folder, name, anchor, after = link.groups()
    return f"{before}{folder}{'index' if name == 'README' else name}.html{anchor or ''}{after}"


if __name__ == "__main__":
    print(f"{len(build(Path(sys.argv[1])))} pages in {sys.argv[1]}")
