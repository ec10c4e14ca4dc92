"""What a question is limited to, in words: for the state line, the heading of every export, and nothing else."""

from __future__ import annotations

from ..contract.options import Options
from . import units
from .text import display


def scope_text(options: Options, runs: int = 1) -> str:
    """Display text such as 'cycle 5, rank 3, from 1.50 ms to 2.00 ms'; empty where the question is about all."""
    pair = runs == 2
    parts = [
        _of_both("cycle", options.cycle, options.cycle_b, pair), _of_both("pid", options.pid_a, options.pid_b, pair),
        _of_both("rank", options.rank, options.rank_b, pair),
        display(options.device, 40) if options.device is not None else "",
        f"from {units.duration(options.from_ns)}" if options.from_ns is not None else "",
        f"to {units.duration(options.to_ns)}" if options.to_ns is not None else "",
        "" if options.warm_up else "without warm-up",
    ]
    return ", ".join(part for part in parts if part).replace(", to ", " to ")


def _of_both(word: str, a: int | None, b: int | None, pair: bool) -> str:
    if not pair or a == b:
        return f"{word} {a}" if a is not None else ""
    return ", ".join(f"{word} {one} of {run}" for one, run in ((a, "A"), (b, "B")) if one is not None)
