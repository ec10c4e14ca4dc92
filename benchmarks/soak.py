"""Random keys on the demo pair for some minutes: no exception, and how much memory grew.

The app runs without a terminal at 120×40 in this process; keys come from a seeded generator, runs are read as the
command line reads them. The warm-up fills the caches of names and pages; growth is that of the median over the minute
behind it to the median over the last minute, since a moment's memory goes up and down with what is being asked. Prints
one line a minute and fails where memory grew by more than a tenth.

    python benchmarks/soak.py --minutes 10 [A B]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from textual import _wait

from warplens.analysis.views import VIEWS
from warplens.loaders.ingest.process import Ingest
from warplens.tui.app.app import WarplensApp
from warplens.tui.session.keys import KEYS

ROOT = Path(__file__).resolve().parent.parent
DEMO = (ROOT / "samples" / "demo" / "normal.json.gz", ROOT / "samples" / "demo" / "abnormal.json.gz")
NEVER = {"quit", "suspend", "export", "export_as", "open_trace", "stop"}
"""Keys that would end the soak, or fill the disk."""
WARM_UP_S = 60


def resident() -> float:
    """MiB this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def keyboard(rng: random.Random) -> list[str]:
    """One or a few keys that belong together."""
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


async def soak(paths: list[str], minutes: float, seed: int) -> int:
    """Press keys; 1 where something failed or memory grew by more than a tenth."""
    _wait.SLEEP_GRANULARITY, _wait.SLEEP_IDLE = 1 / 400, 1 / 4000
    rng = random.Random(seed)
    app = WarplensApp(paths, lambda path: Ingest(path))
    begun, said, keys = time.monotonic(), 0.0, 0
    samples: list[tuple[float, float]] = []
    async with app.run_test(size=(120, 40)) as pilot:
        while app.session.loading:
            await pilot.pause(0.05)
        while (elapsed := time.monotonic() - begun) < 60 * minutes:
            for key in keyboard(rng):
                await pilot.press(key)
                keys += 1
            if rng.random() < 0.005:
                await pilot.resize_terminal(rng.randrange(20, 200), rng.randrange(6, 60))
            if not app.is_running:
                print(f"the app ended after {keys:,} keys", file=sys.stderr)
                return 1
            if elapsed > min(WARM_UP_S, 20 * minutes):
                samples.append((elapsed, resident()))
            if elapsed - said > 60:
                said = elapsed
                print(f"{elapsed / 60:5.1f} min  {keys:>8,} keys  {resident():7.1f} MiB", flush=True)
    span = min(60.0, 20 * minutes)
    first = statistics.median(used for at, used in samples if at < samples[0][0] + span)
    last = statistics.median(used for at, used in samples if at > samples[-1][0] - span)
    grown = last / first - 1
    print(f"{keys:,} keys in {minutes:g} min, no exception, memory {first:.0f} → {last:.0f} MiB ({grown:+.1%})")
    return 1 if grown > 0.10 else 0


def main() -> int:
    """Parse the command line and soak."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("runs", nargs="*", default=[str(path) for path in DEMO])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            os.environ[name] = home
        os.chdir(home)
        os.environ["TERM"] = "xterm-256color"
        return asyncio.run(soak(arguments.runs, arguments.minutes, arguments.seed))


if __name__ == "__main__":
    raise SystemExit(main())
