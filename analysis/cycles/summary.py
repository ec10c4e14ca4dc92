"""What is said above the list of cycles, in words: what they are, how long they take, how two runs differ."""

from __future__ import annotations

from typing import Any

from ..core import units
from ..core.text import display
from .detection import Cycles


def _anchor(facts: dict[str, Any]) -> str:
    if facts["guessed"]:
        what = "the calls of a host function" if facts["anchor"] is None else display(str(facts["anchor"]), 48)
        return f"guessed: {what} {'repeat' if facts['source'] == 'pattern' else 'repeats'}"
    return f"anchor {display(str(facts['anchor']), 48)}, {facts['source']}" if facts["anchor"] else facts["source"]


def _time(microseconds: float) -> str:
    return units.duration(1e3 * microseconds)


def _change(was: float, now: float, moved: bool) -> str:
    """Two times; by how much they differ only where that is more than chance, which the headline says."""
    text = f"{_time(was)} → {_time(now)}"
    return f"{text} ({units.percent(100 * (now - was) / was, signed=True, places=2)})" if moved and was else text


def run_summary(cycles: Cycles, facts: dict[str, Any], busy: str = "") -> tuple[str, ...]:
    """Lines for one run: how many, from where, mean and median, what stands out and what was not seen. ``busy`` is how
    busy its devices are, in words, as every view says it."""
    frame, count = cycles.frame, facts["n"]
    ranks = frame["rank"].drop_nulls().n_unique()
    of = f" of {units.count(ranks)} ranks" if ranks > 1 else ""
    first = f"{count:,} cycle{'' if count == 1 else 's'}{of} · {_anchor(facts)}"
    if facts["warm_up"]:
        first += f" · {facts['warm_up']} warm-up"
    if facts["outliers"]:
        first += f" · {units.counted(facts['outliers'], 'outlier', 'outliers')}"
    if facts["incomplete"]:
        first += f" · {facts['incomplete']} of {count} lack GPU records"
    second = (
        f"mean {_time(facts['mean_us'])}, median {_time(facts['median_us'])}, "
        f"99th percentile {_time(facts['p99_us'])}"
    )
    if busy:
        second += f"; {busy}"
    lines = [first, second]
    if len(facts["kinds"]) > 1:
        lines.append(" · ".join(
            f"{kind} {own['n']:,} of {_time(own['mean_us'])}" for kind, own in facts["kinds"].items()
        ))
    return tuple(lines)


def pair_summary(labels: tuple[str, ...], facts: dict[str, Any], headline: str, moved: bool) -> tuple[str, ...]:
    """Lines for two runs: the pair's headline, their numbers, their means and medians. ``moved`` is whether the
    headline says that cycles take longer or shorter."""
    left, right = facts["a"], facts["b"]
    first = f"A {display(labels[0], 32)} {left['n']} · B {display(labels[1], 32)} {right['n']} · {_anchor(left)}"
    if (left["anchor"], left["source"]) != (right["anchor"], right["source"]):
        first += f" (B: {_anchor(right)})"
    lacking = left["incomplete"] + right["incomplete"]
    if lacking:
        first += f" · {lacking} of {left['n'] + right['n']} lack GPU records"
    mean, median = (
        f"{what} {_change(left[key], right[key], moved)}"
        for what, key in (("mean", "mean_us"), ("median", "median_us"))
    )
    lines = (first, headline, f"{mean}, {median}", *_by_kind(left["kinds"], right["kinds"], moved))
    return tuple(line for line in lines if line)


def exact_mean(facts: dict[str, Any]) -> str:
    """The mean of one run or two as a script or a table of another tool has it: µs with two decimals; '' without any.
    By how much two means differ is arithmetic: one slow cycle does it. Whether the cycle changed, the headline says."""
    sides = [facts[side] for side in ("a", "b")] if "a" in facts else [facts]
    means = [side.get("mean_us") for side in sides]
    if any(mean is None for mean in means):
        return ""
    text = "mean in µs: " + " → ".join(f"{mean:,.2f}" for mean in means)
    if len(means) == 2 and means[0]:
        text += f", {units.percent(100 * (means[1] / means[0] - 1), signed=True, places=2)} by arithmetic alone"
    return text


def _by_kind(left: dict[str, Any], right: dict[str, Any], moved: bool) -> list[str]:
    """A line with the mean of every kind both runs have, where they have several."""
    both = [kind for kind in left if kind in right]
    if max(len(left), len(right)) < 2 or not both:
        return []
    means = [(kind, left[kind]["mean_us"], right[kind]["mean_us"]) for kind in both]
    return ["mean per kind: " + " · ".join(f"{kind} {_change(was, now, moved)}" for kind, was, now in means)]
