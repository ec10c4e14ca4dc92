"""Cost of one question at n and 4n of one kind of thing, as CPU seconds and MB per doubling of the input file.

Each cost is that of a whole ``warplens report --no-cache`` less that of the same question on a handful of events, best
of three. Below 0.25 s or 60 MB above the start it is noise and not judged. Fails if a kind costs more than 2.3 times
per doubling, or events spelt otherwise more than three times their plain twin.

    python benchmarks/growth.py [KIND...]
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MOST, MOST_OF_TWIN = 2.3, 3.0
LEAST_S, LEAST_MB = 0.25, 60.0
Events = Iterator[dict[str, Any]]


def kernel(number: int, **more: Any) -> dict[str, Any]:
    """One launch."""
    on = {"pid": 0, "tid": 7, "args": {"device": 0, "stream": 7}}
    return {"ph": "X", "cat": "kernel", "name": f"k{number % 20}", "ts": 20 * number, "dur": 10, **on, **more}


def plain(count: int) -> Events:
    """Launches of 20 kernels."""
    yield from map(kernel, range(count))


def begin_end(count: int) -> Events:
    """The same as pairs of events."""
    for event in plain(count):
        yield {**event, "ph": "B"}
        yield {**event, "ph": "E", "ts": event["ts"] + event["dur"]}


def not_numbers(count: int) -> Events:
    """The same with a bare NaN in each."""
    for event in plain(count):
        yield {**event, "args": {**event["args"], "est. achieved occupancy %": math.nan}}


def names(count: int) -> Events:
    """As many kernels as launches."""
    for number in range(count):
        yield kernel(number, name=f"kernel_{number}_of_many")


def nested(count: int) -> Events:
    """Ranges within each other, one per 500 launches, each around all of them."""
    levels = count // 500
    for level in range(levels):
        yield {"ph": "X", "cat": "user_annotation", "name": f"level {level}", "ts": level - levels, "pid": 1, "tid": 1,
               "dur": 20 * count + 2 * (levels - level)}
    yield from plain(count)


def overlapping(count: int) -> Events:
    """Launches of one stream that all run at once, so that each runs through many guessed repetitions."""
    for number in range(count):
        yield kernel(number, dur=20 * count)


KINDS: dict[str, tuple[Callable[[int], Events], int, str]] = {
    "plain": (plain, 30_000, "kernels"), "begin-end": (begin_end, 30_000, "kernels"),
    "nan": (not_numbers, 30_000, "kernels"), "names": (names, 15_000, "kernels"), "nested": (nested, 10_000, "ranges"),
    "overlapping": (overlapping, 10_000, "overview"),
    "ranks": (plain, 4, "ranks"), "many-ranks": (plain, 20, "ranks"),
}
"""Name: (events, the smaller number, the view)."""


def written(place: Path, kind: str, count: int) -> tuple[Path, int]:
    """The recording and its bytes; for ranks a folder of as many."""
    make = KINDS[kind][0]
    if "ranks" not in kind:
        path = place / f"{kind}-{count}.json"
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(make(count))}))
        return path, path.stat().st_size
    path = place / f"{kind}-{count}"
    path.mkdir(exist_ok=True)
    for rank in range(count):
        about = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": count}}
        (path / f"rank{rank}.json").write_text(json.dumps(about | {"traceEvents": list(make(40))}))
    return path, sum(file.stat().st_size for file in path.iterdir())


def cost(path: Path, view: str) -> tuple[float, float]:
    """CPU seconds and peak MB of the question, best of three."""
    program = "import sys; from warplens.cli.main import main; sys.exit(main())"
    words = [sys.executable, "-c", program, "report", str(path), "--no-cache", "--view", view, "--format", "json"]
    best = (math.inf, math.inf)
    for _ in range(3):
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        if status:
            raise SystemExit(f"{path.name} {view}: exit {os.waitstatus_to_exitcode(status)}")
        best = min(best[0], used.ru_utime + used.ru_stime), min(best[1], used.ru_maxrss / 1024)
    return best


def main() -> int:
    """Measure the kinds named, or all."""
    failed, seconds = False, dict[str, float]()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for kind in sys.argv[1:] or KINDS:
            _, count, view = KINDS[kind]
            start = cost(written(place, kind, 2 if "ranks" in kind else 500)[0], view)
            (small, size), (large, four) = (written(place, kind, count * times) for times in (1, 4))
            low, high = cost(small, view), cost(large, view)
            said = []
            for what, begin, one, other, least in zip(("s", "MB"), start, low, high, (LEAST_S, LEAST_MB), strict=True):
                grown = 2 ** (math.log((other - begin) / max(one - begin, least / 2)) / math.log(four / size)) if (
                    other - begin > least) else 0.0
                failed |= grown > MOST
                said.append(f"{one - begin:7.2f} {other - begin:7.2f} {what} = {grown:.1f}x")
            seconds[kind] = high[0] - start[0]
            twin = seconds[kind] / seconds["plain"] if kind in ("begin-end", "nan") and "plain" in seconds else 0.0
            failed |= twin > MOST_OF_TWIN
            print(f"{kind:<12} {'   '.join(said)}" + (f"   {twin:.1f}x its twin" if twin else ""), flush=True)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
