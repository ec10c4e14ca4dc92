"""The pictures of the README are what the app shows of the bundled demo.

``WARPLENS_UPDATE=1 pytest tests/test_pictures.py`` takes them anew.
"""

from __future__ import annotations

import os
import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from app_runs import press, settled
from demo_app import demo_app

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "img"
FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def lines_of(picture: str) -> list[str]:
    """The text of a picture, one line per row."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in re.findall(r'<text [^>]*?x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', picture, re.DOTALL):
        rows.setdefault(float(y), []).append((float(x), unescape(text).replace("\xa0", " ")))
    return ["".join(text for _, text in sorted(rows[y])).rstrip() for y in sorted(rows)]


@pytest.mark.parametrize(("name", "keys", "height"), [("kernels", ("x",), 22), ("diff", (), 26), ("idle", ("x",), 34)])
async def test_the_readme_shows_what_the_app_shows(name: str, keys: tuple[str, ...], height: int) -> None:
    app = demo_app(name)
    async with app.run_test(size=(120, height)) as pilot:
        await settled(pilot)
        await press(pilot, *keys)
        # the fonts it names lie on a server: a picture of ours asks nobody for anything
        shown = FONT.sub("", app.export_screenshot(title=f"warplens demo: {name}"))
    path = FOLDER / f"{name}.svg"
    if os.environ.get("WARPLENS_UPDATE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(shown, encoding="utf-8")
    kept = path.read_text(encoding="utf-8")
    assert lines_of(kept) == lines_of(shown), "run WARPLENS_UPDATE=1 pytest tests/test_pictures.py"


@pytest.mark.parametrize("name", ["kernels", "diff", "idle"])
def test_a_picture_holds_nothing_but_the_screen(name: str) -> None:
    picture = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    shown = "\n".join(lines_of(picture))
    assert "gemm bf16" in shown or name == "idle"
    assert "normal (8,176 launches) → abnormal (6,735 launches)" in shown
    assert not re.search(r"https?://(?!www\.w3\.org|www\.textualize\.io)", picture)
    assert not re.search(r"/(home|tmp|work|root|Users)/", picture)


def test_the_moving_picture_shows_the_app_and_asks_nobody_for_anything() -> None:
    """samples/make_tour.py makes it, in tmux, which not every machine has."""
    path = FOLDER / "tour.svg"
    picture = ElementTree.parse(path).getroot()
    frames = picture.findall("{http://www.w3.org/2000/svg}g")
    text = ["".join(frame.itertext()) for frame in frames]
    assert len(frames) == 8 and path.stat().st_size < 300_000
    assert "SM clock of GPU 7 fell 1,187 → 210 MHz" in text[0]
    assert not [one for one in text if "as they are read" in one]
    assert "href" not in (source := path.read_text(encoding="utf-8")) and "url(" not in source
