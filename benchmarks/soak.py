"""Soak test: random keys on many recordings in one app; checks for exceptions, stale answers and memory growth.

The app runs without a terminal in this process, set up like the command's own; keys, sizes and recordings come from a
seeded generator. One draw in ten is a packet: keys that open a prompt and text for it in one write, pastes among them,
through the parser and the queue of a terminal; text that is not in its prompt afterwards is lost. No key of the test
exports, so a file in its folder is text that ran as keys. Every forty keys the app opens copies of one or two other
recordings from the given folder (without one, the demo pair stays): one in four is still being written while it is
read, one in four is truncated, grows or vanishes while open. If no file was changed, the test then waits until the app
is idle, computes the shown view again without cached answers, and compares all values in the order shown. A key that
takes longer than the pilot's timeout (30 s, on a stalled machine) is counted as late. Memory growth is the median over
the last quarter relative to the median over the quarter that follows the first eighth. Prints one line per minute;
fails on an exception, a stale answer, lost text, a file or memory growth above 10%.

    python benchmarks/soak.py --minutes 120 FOLDER_OR_FILE...
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from warplens.cli.main import set_up

set_up()  # before polars is imported

from attack import recordings
from msgspec.structs import replace
from textual import _wait, events
from textual.pilot import WaitForScreenTimeout
from textual.widgets import Input

from warplens.analysis.table.tree import is_tree
from warplens.analysis.views import VIEWS
from warplens.loaders.ingest.process import Ingest
from warplens.tui.app.app import WarplensApp
from warplens.tui.overlays import palette
from warplens.tui.panes.shown import Shown
from warplens.tui.session.answers import Answers
from warplens.tui.session.jobs import waiting
from warplens.tui.session.keys import KEYS
from warplens.tui.session.messages import RunsRequest
from warplens.tui.terminal import clipboard
from warplens.tui.terminal.keyboard import Pastes, TypeAhead, pasted
from warplens.tui.terminal.textual_hooks import Keys

ROOT = Path(__file__).resolve().parent.parent
DEMO = [ROOT / "samples" / "demo" / "normal.json.gz", ROOT / "samples" / "demo" / "abnormal.json.gz"]
NEVER = {"quit", "suspend", "export", "export_as", "open_trace", "stop"}
"""Commands that would end the soak or fill the disk."""
SIZES = [(120, 40), (80, 24), (200, 60), (60, 20), (40, 10), (10, 5), (3, 3)]
KEYS_A_DRAW = 40
QUIET_S = 30.0
"""Seconds an answer may take before the draw is counted as busy and not compared."""


def resident() -> float:
    """Resident memory of this process, MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def keyboard(rng: random.Random) -> list[str]:
    """A random key, or a short sequence of keys that belong together."""
    names = [key for one in KEYS if one.name not in NEVER for key in one.keys.split(",")]
    views = [entry.key for entry in VIEWS if entry.key]
    choice = rng.random()
    if choice < 0.15:
        return [rng.choice(views)]
    if choice < 0.25:
        return [rng.choice(["f", "slash"]), *rng.choice(["gemm", "total>1ms", "share>", "[x]", "~(", ""]), "enter"]
    if choice < 0.35:
        return [rng.choice(["enter", "question_mark", "w"]), *["pagedown"] * rng.randrange(3), "escape"]
    if choice < 0.45:
        return ["escape"] * rng.randrange(1, 4)
    return [rng.choice(names)]


def packet(rng: random.Random) -> tuple[str, str | None]:
    """What a terminal sends in one write, and the text that the prompt then holds; None if it is closed again."""
    text = "".join(rng.choices("abceqxyzEOYB 0123456789/_", k=rng.randrange(1, 30)))
    paste = "".join(rng.choices(["q", "E", " ", "\x1b[31m", "\x1b", "\r\n", "\t", "\x01", "\x1b[200~", "größe"],
                                k=rng.randrange(1, 40)))
    marked = f"\x1b[200~{paste}\x1b[201~"
    view = rng.choice(["", "3", "4", "48b3"])
    return rng.choice([
        (f"{view}/{text}", text), (f"{view}/{marked}", pasted(paste)),
        (f"3/{text}{marked}{text}", text + pasted(paste) + text),
        (f"3f{text}\r", None), (f"0\x15select {len(text)} as answer\r", None), (f"{marked}3{marked}", None),
        (f"3/{text}\r", None), (marked, None),
    ])


async def typed(app: WarplensApp, data: str, rng: random.Random) -> None:
    """Hand the text to the app as its driver does, in one read or in several, until the last key was obeyed."""
    ahead, pastes, parser = TypeAhead(app), Pastes(), Keys(False)
    for _ in range(3):  # out of prompts and overlays
        ahead.take(events.Key("escape", "\x1b"))
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 0, 3))))
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        for is_paste, text in pastes.feed(data[begin:end]):
            for event in [events.Paste(text)] if is_paste else parser.feed(text):
                if isinstance(event, events.Key) or (is_paste and isinstance(event, events.Paste)):
                    event.set_sender(app)
                    ahead.take(event)
    if ahead._task is not None:
        await ahead._task


def lost(app: WarplensApp, text: str | None) -> bool:
    """Whether the prompt does not hold what was typed into it; False if no text should be there."""
    prompt = app.main.prompt
    return text is not None and app.screen is app.main and (not prompt.display or held(app).strip() != text.strip())


def held(app: WarplensApp) -> str:
    """What stands in the prompt."""
    return app.main.prompt.query_one(Input).value


def written_slowly(data: bytes, path: Path) -> None:
    """Write the file in twenty pieces over two seconds."""
    with path.open("wb") as file:
        for at in range(0, len(data), len(data) // 20 + 1):
            file.write(data[at : at + len(data) // 20 + 1])
            file.flush()
            time.sleep(0.1)


def changed(path: Path, rng: random.Random) -> str:
    """Delete, truncate or extend the file; says which."""
    how = rng.choice(["vanished", "cut", "grew"])
    if how == "vanished":
        path.unlink()
    elif how == "cut":
        os.truncate(path, path.stat().st_size // 2)
    else:
        with path.open("ab") as file:
            file.write(path.read_bytes()[: 1 << 16])
    return how


async def quiet(app: WarplensApp, seconds: float) -> bool:
    """Wait up to ``seconds`` until the app neither loads nor computes; whether it got there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(0.05)
        if not (app.session.loading or waiting(app)):
            await asyncio.sleep(0.1)
            if not (app.session.loading or waiting(app)):
                return True
    return False


async def stale(app: WarplensApp) -> str | None:
    """Name of the view if its rows differ from a fresh computation; '' if they match; None if it has no rows."""
    pane: Any = app.main.pane
    if pane is None or pane.shown is None or pane.entry.name == "sql":
        return None
    before, app.session.answers = app.session.answers, Answers()
    fresh = await asyncio.to_thread(pane._question())
    app.session.answers = before
    if not isinstance(fresh, Shown) or pane.shown is None:
        return None
    answers = pane.shown, fresh
    if is_tree(fresh.base):  # the user decides which rows are open, here and of the groups in the diff
        tables = [one.base for one in answers]
    elif pane.shown.base.kept is not None and len(pane.shown.base) != len(fresh.base):
        tables = [replace(one.base, row_order=None) for one in answers]
    else:
        tables = [one.table for one in answers]
    shown, now = (one.shown() for one in tables)
    return "" if shown.equals(now) else str(pane.entry.name)


async def soak(files: list[Path], minutes: float, seed: int, home: Path) -> int:
    """Press keys; returns 1 if something failed or memory grew by more than 10%."""
    _wait.SLEEP_GRANULARITY, _wait.SLEEP_IDLE = 1 / 400, 1 / 4000
    rng, counts = random.Random(seed), Counter[str]()
    gc.disable()  # as the command does; the app enables it with its own thresholds once it has started
    clipboard.LONGEST = 1 << 40  # copies write no files
    palette.KEYS = tuple(key for key in palette.KEYS if key.name not in NEVER)  # random keys chose "Quit" there once
    app = WarplensApp([str(path) for path in DEMO], lambda path: Ingest(path))
    begun, said = time.monotonic(), 0.0
    samples: list[tuple[float, float]] = []
    folder = home / "runs"
    async with app.run_test(size=(120, 40)) as pilot:
        while (elapsed := time.monotonic() - begun) < 60 * minutes:
            untouched = True
            if files:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                drawn = rng.sample(files, min(len(files), rng.choice((1, 1, 2))))
                copies = [folder / f"{place}-{file.name}" for place, file in enumerate(drawn)]
                for file, copy in zip(drawn, copies, strict=True):
                    if rng.random() < 0.25:
                        untouched = False
                        counts["read while written"] += 1
                        threading.Thread(target=written_slowly, args=(file.read_bytes(), copy), daemon=True).start()
                        time.sleep(0.05)
                    else:
                        shutil.copyfile(file, copy)
                counts["recordings"] += len(copies)
                app.post_message(RunsRequest([str(copy) for copy in copies]))
            if rng.random() < 0.7:
                await quiet(app, QUIET_S)
            change = rng.randrange(KEYS_A_DRAW) if files and rng.random() < 0.25 else -1
            for at in range(KEYS_A_DRAW):
                if rng.random() < 0.1 and app.has_view:
                    data, text = packet(rng)
                    counts["packets"] += 1
                    counts["keys"] += len(data)
                    await typed(app, data, rng)
                    if lost(app, text):
                        counts["lost"] += 1
                        print(f"lost: {data!r} left {held(app)!r}", flush=True)
                    continue
                for key in keyboard(rng):
                    counts["keys"] += 1
                    try:
                        await pilot.press(key)
                    except WaitForScreenTimeout:
                        counts["keys answered late"] += 1
                if at == change and copies[0].exists():
                    counts[changed(copies[0], rng)] += 1
                    untouched = False
                if rng.random() < 0.02:
                    await pilot.resize_terminal(*rng.choice(SIZES))
                    counts["sizes"] += 1
                if not app.is_running:
                    print(f"the app ended: {counts}", file=sys.stderr)
                    return 1
            if untouched and not await quiet(app, QUIET_S):
                counts["busy"] += 1
            elif untouched:
                wrong = await stale(app)
                counts["compared" if wrong is not None else "without rows"] += 1
                if wrong:
                    counts["stale"] += 1
                    print(f"stale: {wrong}, scope {app.session.options}, {[run.path for run in app.session.inputs]}",
                          flush=True)
            samples.append((elapsed, resident()))
            if elapsed - said > 60:
                said = elapsed
                print(f"{elapsed / 60:5.1f} min  {counts['keys']:>8,} keys  {resident():7.1f} MiB", flush=True)
    written = list(home.glob("warplens-*"))
    quarter = 15 * minutes
    end, warm = samples[-1][0], samples[-1][0] / 8
    first = statistics.median(used for at, used in samples if warm <= at < warm + quarter)
    last = statistics.median(used for at, used in samples if at > end - quarter)
    grown = last / first - 1
    print(", ".join(f"{count:,} {name}" for name, count in counts.most_common()))
    print(f"{minutes:g} min, no exception, {counts['stale']} stale, {counts['lost']} lost, {len(written)} files, "
          f"memory {first:.0f} → {last:.0f} MiB ({grown:+.1%})")
    return int(grown > 0.10 or counts["stale"] > 0 or counts["lost"] > 0 or bool(written))


def main() -> int:
    """Parse the command line and soak."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("places", nargs="*", type=Path)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    files = [file.resolve() for file in recordings(arguments.places)]
    with tempfile.TemporaryDirectory() as home:
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            os.environ[name] = home
        os.chdir(home)
        os.environ["TERM"] = "xterm-256color"
        return asyncio.run(soak(files, arguments.minutes, arguments.seed, Path(home)))


if __name__ == "__main__":
    raise SystemExit(main())
