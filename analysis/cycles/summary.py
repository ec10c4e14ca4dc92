"""What is said above the list of cycles, in words: what they are, how long they take, how two runs differ."""

from __future__ import annotations

from typing import Any

import polars as pl

from ..core import units
from ..core.distribution import fence, shifted
from ..core.text import display

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def _some(count: int, noun: str) -> str:
    word = _WORDS[count] if count < len(_WORDS) else f"{count:,}"
    return f"{word} {noun}{'' if count == 1 else 's'}"


def _anchor(facts: dict[str, Any]) -> str:
    if facts["source"] == "pattern":
        return f"found where {facts['anchor']} repeat"
    return f"anchor {display(str(facts['anchor']), 48)}, {facts['source']}" if facts["anchor"] else facts["source"]


def _microseconds(value: float) -> str:
    return f"{value:,.2f} µs"


def _percent(was: float, now: float) -> str:
    return units.percent(100 * (now - was) / was, signed=True, places=2) if was else "from nothing"


def run_summary(frame: pl.DataFrame, facts: dict[str, Any]) -> tuple[str, ...]:
    """Lines for one run: how many, from where, mean and median, what stands out and what was not seen."""
    count = facts["n"]
    first = f"{count:,} cycle{'' if count == 1 else 's'} · {_anchor(facts)}"
    for amount, what in ((facts["warm_up"], "warm-up"), (facts["outliers"], "much slower than the rest")):
        if amount:
            first += f" · {amount} {what}"
    if facts["incomplete"]:
        first += f" · {facts['incomplete']} of {count} lack GPU records"
    second = (
        f"mean {_microseconds(facts['mean_us'])}, median {_microseconds(facts['median_us'])}, "
        f"99th percentile {_microseconds(facts['p99_us'])}"
    )
    whole = frame.filter(pl.col("busy_ns").is_not_null() & pl.col("idle_ns").is_not_null())
    total, busy = (int(whole[name].sum()) for name in ("dur_ns", "busy_ns"))
    if total and frame["start_ns"].null_count() == 0:
        second += f"; devices busy {units.percent(100 * busy / total)} of it with kernels, collectives and copies"
    lines = [first, second]
    if len(facts["kinds"]) > 1:
        lines.append(" · ".join(
            f"{kind} {own['n']:,} of {_microseconds(own['mean_us'])}" for kind, own in facts["kinds"].items()
        ))
    return tuple(lines)


def pair_summary(
    labels: tuple[str, ...], a: pl.DataFrame, b: pl.DataFrame, facts: dict[str, Any]
) -> tuple[str, ...]:
    """Lines for two runs: their numbers, their means and medians, and whether all cycles moved or only some."""
    left, right = facts["a"], facts["b"]
    first = f"A {display(labels[0], 32)} {left['n']} · B {display(labels[1], 32)} {right['n']} · {_anchor(left)}"
    if (left["anchor"], left["source"]) != (right["anchor"], right["source"]):
        first += f" (B: {_anchor(right)})"
    lacking = left["incomplete"] + right["incomplete"]
    if lacking:
        first += f" · {lacking} of {left['n'] + right['n']} lack GPU records"
    mean, median = (
        f"{what} {_microseconds(left[key])} → {_microseconds(right[key])} "
        f"({_percent(left[key], right[key])})"
        for what, key in (("mean", "mean_us"), ("median", "median_us"))
    )
    return (first, f"{mean}, {median}: {_what_moved(a, b)}", *_by_kind(left["kinds"], right["kinds"]))


def _by_kind(left: dict[str, Any], right: dict[str, Any]) -> list[str]:
    """A line with the mean of every kind both runs have, where they have several."""
    both = [kind for kind in left if kind in right]
    if max(len(left), len(right)) < 2 or not both:
        return []
    means = [(kind, left[kind]["mean_us"], right[kind]["mean_us"]) for kind in both]
    return ["mean per kind: " + " · ".join(
        f"{kind} {_microseconds(was)} → {_microseconds(now)} ({_percent(was, now)})" for kind, was, now in means
    )]


def _what_moved(a: pl.DataFrame, b: pl.DataFrame) -> str:
    values = tuple(frame["dur_ns"].cast(pl.Float64).to_numpy() for frame in (a, b))
    moved = shifted(*values)
    if moved is None:
        return "too few cycles to tell a shift from chance"
    if moved:
        slower = values[1].mean() > values[0].mean()
        return f"cycles are {'slower' if slower else 'faster'} in general"
    slow_a, slow_b = (int((side > fence(side)).sum()) for side in values)
    if slow_b > slow_a:
        return f"{_some(slow_b - slow_a, 'slow cycle')}{' more' if slow_a else ''}, no general shift"
    if slow_a > slow_b:
        return f"{_some(slow_a - slow_b, 'slow cycle')} fewer, no general shift"
    return "no shift beyond what cycles vary by"
