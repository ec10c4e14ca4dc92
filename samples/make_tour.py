"""Writes docs/img/tour.svg: an animation of the app on the bundled pair, one frame per step of a tour.

    python samples/make_tour.py [--warplens .venv/bin/warplens]

The app runs in tmux, on a server of its own; keys are sent to tmux, and its screen after each step is one frame. The
SVG animates its frames by CSS and loads no external fonts or scripts.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import tempfile
import time
from html import escape
from pathlib import Path

from rich.color import Color
from rich.style import Style
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

COLUMNS, LINES, SECONDS = 110, 30, 4
CELL, LINE = 8.4, 18.0
INK, GROUND = "#c5c8c6", "#121212"
TOUR = (
    ((), "warplens demo: two runs of a serving job, and what changed"),
    (("Down", "Enter"), "Enter: the evidence behind the first suspect"),
    (("Escape", "8"), "8: why the GPU waits, A beside B"),
    (("3",), "3: kernels, per cycle"),
    (("/", "g", "e", "m", "m", "Enter"), "/gemm: search as you type"),
    (("Escape", "Escape", "6"), "6: the timeline, + and − to zoom"),
    (("b",), "b: what each change would buy"),
    (("1",), "1: the overview, with what to do first"),
)
"""Per frame: the keys in tmux notation, and the caption."""
WORDS = re.compile(r"\S+(?: \S+)*")
WAITING = ("omputing…", "as they are read", "opening")


def frames(program: str) -> list[list[Text]]:
    """The screen after each step of the tour, as styled lines."""
    def tmux(*words: str) -> str:
        return subprocess.run(["tmux", "-L", server, *words], check=True, capture_output=True, text=True).stdout

    server, shown = f"warplens-tour-{os.getpid()}", list[list[Text]]()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        places = " ".join(f"XDG_{name}_HOME={home}/{name}" for name in ("CACHE", "CONFIG", "STATE"))
        tmux("-f", "/dev/null", "new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES),
             f"env {places} COLORTERM=truecolor TERM=tmux-256color {program} demo")
        tmux("set-option", "-s", "escape-time", "0")
        try:
            for keys, _ in TOUR:
                for key in keys:
                    tmux("send-keys", key)
                    time.sleep(0.3)
                before = None
                while (screen := tmux("capture-pane", "-ep")) != before or not screen.strip() or any(
                        word in screen for word in WAITING):
                    before = screen
                    time.sleep(1.5)
                shown.append([Text.from_ansi(line) for line in screen.splitlines()])
        finally:
            tmux("kill-server")
    return shown


def picture(shown: list[list[Text]]) -> str:
    """The frames as one SVG; equal styles share a CSS class."""
    classes: dict[str, str] = {}
    height, width = (LINES + 2) * LINE, COLUMNS * CELL + 2 * CELL
    bodies = []
    for number, ((_, title), lines) in enumerate(zip(TOUR, shown, strict=True)):
        body = [f'<text class="t" x="{CELL}" y="{LINE * 0.8:.0f}">{escape(title)}</text>']
        for row, line in enumerate(lines):
            y, parts = (row + 2) * LINE, []
            for start, stop, style in runs(line):
                words, x = line.plain[start:stop], CELL + start * CELL
                ink, ground = hexadecimal(style.color), hexadecimal(style.bgcolor)
                if style.reverse:
                    ink, ground = ground or GROUND, ink or INK
                if ground:
                    body.append(f'<rect x="{x:.1f}" y="{y - LINE * 0.75:.1f}" width="{(stop - start) * CELL:.1f}" '
                                f'height="{LINE:.0f}" fill="{ground}"/>')
                look = f"fill:{ink or INK}" + (";font-weight:bold" if style.bold else "")
                for piece in WORDS.finditer(words):  # each with its own x: not every viewer keeps spaces
                    name, long = classes.setdefault(look, f"c{len(classes)}"), len(piece[0]) * CELL
                    parts.append(f'<tspan class="{name}" x="{x + piece.start() * CELL:.1f}" textLength="{long:.1f}" '
                                 f'lengthAdjust="spacingAndGlyphs">{escape(piece[0])}</tspan>')
            if parts:
                body.append(f'<text y="{y:.0f}">{"".join(parts)}</text>')
        bodies.append(f'<g class="f" style="animation-delay:{number * SECONDS - len(shown) * SECONDS}s">'
                      f'{"".join(body)}</g>')
    each = 100 / len(shown)
    rules = "".join(f".{name}{{{look}}}" for look, name in classes.items())
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}">\n<style>'
        f"text{{font:14px ui-monospace,Menlo,Consolas,monospace;white-space:pre}}.t{{fill:#ffd75f}}{rules}"
        f".f{{visibility:hidden;animation:a {len(shown) * SECONDS}s step-end infinite}}"
        f"@keyframes a{{0%{{visibility:visible}}{each:.3f}%{{visibility:hidden}}}}</style>\n"
        f'<rect width="100%" height="100%" rx="6" fill="{GROUND}"/>\n' + "\n".join(bodies) + "\n</svg>\n"
    )


def runs(line: Text) -> list[tuple[int, int, Style]]:
    """Start, end and style of each run of equal style in a line."""
    edges = sorted({0, len(line), *(edge for span in line.spans for edge in (span.start, span.end))})
    made = []
    for start, stop in itertools.pairwise(edges):
        over = [span.style for span in line.spans if span.start <= start and stop <= span.end]
        style = Style.combine([Style(), *(one if isinstance(one, Style) else Style.parse(one) for one in over)])
        made.append((start, stop, style))
    return made


def hexadecimal(color: Color | None) -> str:
    """The colour as #rrggbb; '' for the terminal's default."""
    return "" if color is None or color.is_default else color.get_truecolor(SVG_EXPORT_THEME).hex


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--warplens", default=".venv/bin/warplens")
    path = Path(__file__).parents[1] / "docs" / "img" / "tour.svg"
    path.write_text(picture(frames(parser.parse_args().warplens)), encoding="utf-8")
    print(f"{path}: {path.stat().st_size:,} bytes")
