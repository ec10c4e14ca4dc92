"""Labels that distinguish two runs, or devices with the same name, and the scope of a question in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import PurePath

from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.options import SIDES, Options, Scope
from . import units
from .text import display


def distinct_labels(runs: tuple[Trace, ...]) -> tuple[Trace, ...]:
    """The runs, relabelled ``folder/label`` if both have the same label but different paths; the folder is the nearest
    parent whose name differs. Runs of one file, and runs whose labels differ, are returned unchanged."""
    if len(runs) != 2 or runs[0].info.label != runs[1].info.label:
        return runs
    folders = [PurePath(run.info.source).parts[:-1][::-1] for run in runs]
    depth = next((at for at, (a, b) in enumerate(zip(*folders, strict=False)) if a != b), None)
    if depth is None:
        return runs
    return tuple(
        replace(run, info=replace(run.info, label=f"{parents[depth]}/{run.info.label}"))
        for run, parents in zip(runs, folders, strict=True)
    )


Place = tuple[int | None, str | None]  # A rank and its device.


def device_labels(places: Collection[Place]) -> dict[Place, str | None]:
    """The display name of each device: 'GPU 0', or 'GPU 0 of rank 3' if several ranks have a device of that name."""
    ranks = Counter(device for _, device in set(places))
    return {
        (rank, device): f"{device or 'the device'} of rank {rank}" if ranks[device] > 1 and rank is not None else device
        for rank, device in places
    }


def scope_text(options: Options, runs: int = 1) -> str:
    """Display text such as 'cycle 5, rank 3, 1.50–2.00 ms'; empty if the question has no scope."""
    pair = runs == 2
    parts = [
        _of_both("cycle", options.cycle, options.cycle_b, pair), _of_both("pid", options.pid_a, options.pid_b, pair),
        _of_both("rank", options.rank, options.rank_b, pair),
        display(options.device, 40) if options.device is not None else "",
        *([f"{side.upper()} {_window(options.scope(side))}" for side in SIDES]
          if pair and options.window_b is not None else [_window(options.scope())]),
        "" if options.warm_up else "without warm-up",
    ]
    return ", ".join(part for part in parts if part)


def _window(scope: Scope) -> str:
    if scope.from_ns is not None and scope.to_ns is not None:
        return units.span_text(scope.from_ns, scope.to_ns)
    return " ".join(f"{word} {units.duration(at)}" for word, at in (("from", scope.from_ns), ("to", scope.to_ns))
                    if at is not None)


def _of_both(word: str, a: int | None, b: int | None, pair: bool) -> str:
    if not pair or a == b:
        return f"{word} {a}" if a is not None else ""
    return ", ".join(f"{word} {one} of {run}" for one, run in ((a, "A"), (b, "B")) if one is not None)
