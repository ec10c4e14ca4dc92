"""Overview: where the time of a step goes, how well devices are used, and the findings.

The breakdown is computed from timestamps. Without them it is the recorded breakdown, else the per-cycle profile, else
(launches without times) only kernel time by kind. Notes name what the input cannot tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from msgspec import to_builtins

from ..contract.column import Column, side_by_side
from ..contract.options import SIDES, Options
from ..contract.view import Answer, CannotAnswer, Runs, ScopeRefused, View, merged_notes
from ..core import units
from ..core.device_pairs import mapped
from ..core.text import display
from ..overview.overview import CATEGORIES, HOST, MEANINGS
from ..table.sides import paired_rows

if TYPE_CHECKING:
    from ..diff.headline import Headline
    from ..overview.overview import Overview

COLUMNS = (
    Column("category", "category", "text", "; ".join(f"{k}: {v}" for k, v in MEANINGS.items()), width=14, order=0,
           elastic=True, pinned=True, role="label", pairs="key"),
    Column("time_ns", "time", "ns", "mean per cycle; the sum over launches without timestamps", width=10, order=0,
           role="time", pairs="sum"),
    Column("share", "share", "fraction", "share of the mean cycle", width=16, order=0, bar="share", role="share",
           pairs="sum", of="of the step by torch_tb_profiler's rule"),
    Column("on", "on", "text", "device: time on the device; host: host time while devices are idle", width=6, order=2,
           pairs="key"),
)

WORTH_SAYING = 0.1  # Smallest relative change of host time that is mentioned.
SHOWN = 3  # Devices named in the comparison of busy shares, largest difference first; the others are counted.


def _frame(overview: Overview) -> pl.DataFrame:
    total = sum(time for time in overview.times.values())
    return pl.DataFrame(
        [(name, round(time), time / total if total else None, _on(name, not _ON_DEVICE.isdisjoint(overview.times)))
         for name, time in overview.times.items()],
        schema={"category": pl.String, "time_ns": pl.Int64, "share": pl.Float64, "on": pl.String}, orient="row",
    )


_ON_DEVICE = frozenset(("Kernel", "Memcpy", "Memset"))


def _on(category: str, devices: bool) -> str | None:
    if category in HOST:
        return "host"
    return ("device" if devices else "host") if category in CATEGORIES[:-1] else None


def build(runs: Runs, options: Options) -> Answer:
    """The breakdown of one run, or of two runs side by side, in the order of the categories."""
    from ..cycles.statement import cycle_facts
    from ..overview.sources import overview_of  # sixty modules that a cached answer does not need

    if len(runs) == 1:
        from ..overview.first_page import first_page

        overview = overview_of(runs[0], options, "a")
        page = first_page(runs[0], options, "a", overview.facts | cycle_facts(runs, options))
        return Answer(_frame(overview).lazy(), overview.facts | page, (overview.headline,), overview.notes)
    from ..cycles.base import of_compared
    from ..cycles.whole import shared_kinds
    from ..diff.headline import pair_headline  # thirty modules that a single run does not need
    from ..diff.lead import cycle_lead
    from ..overview.first_page import sides_of

    a, b = overview_of(runs[0], options, "a"), overview_of(runs[1], options, "b")
    scoped = options.cycle is not None or options.cycle_b is not None
    if a.of_recording != b.of_recording or not (scoped or a.of_recording or shared_kinds((runs[0], runs[1]), options)):
        a, b = (one if one.of_recording else overview_of(run, options, side, whole=True)
                for one, run, side in zip((a, b), runs, SIDES, strict=True))
    frames = _frame(a), _frame(b)
    recorded_on = [{"on": frame["on"].drop_nulls().unique().to_list()} for frame in frames]
    joined = paired_rows(*frames, COLUMNS, (recorded_on[0], recorded_on[1]))
    for side, one in (("a", a), ("b", b)):
        if not one.times:  # nothing was timed: null, not 0
            joined = joined.with_columns(pl.lit(None).cast(joined.schema[name]).alias(name) for name in joined.columns
                                         if name.endswith((f"_{side}", "_delta")))
    order = pl.col("category").replace_strict(list(CATEGORIES), range(len(CATEGORIES)), default=len(CATEGORIES))
    headline = pair_headline((runs[0], runs[1]), options)
    per = "recording" if a.of_recording or b.of_recording else "cycle"
    stated = cycle_facts(runs, options)
    of_pair = _of_pair(runs, options)
    sides = sides_of(runs, options, stated, account=not of_pair.get("account"))
    of_a, of_b = ({name: stated[side].get(name) for name in ("base", "step")} | sides[side] for side in SIDES)
    if account := of_pair["account"]:
        for side, own in zip(SIDES, (of_a, of_b), strict=True):
            own["base"] = of_compared(own["base"], sum(row[f"{side}_ns"] for row in account["rows"]))
    facts = {"a": a.facts | of_a, "b": b.facts | of_b, "findings": [*_changes(a, b, headline)], "per": per,
             "lead": to_builtins(cycle_lead(headline.time)) if headline is not None else None}
    facts |= of_pair
    summary = (f"A: {a.headline}", f"B: {b.headline}")
    return Answer(joined.sort(order, "category").lazy(), facts, summary, merged_notes((a.notes, b.notes)))


def _of_pair(runs: Runs, options: Options) -> dict[str, Any]:
    """The facts ``account``, ``lines`` and ``letters`` of two runs, from the diff's account of the change."""
    from ..overview.first_page import account_of_change
    from ..overview.lines import lines_of_pair
    from .diff import build as compare

    try:
        compared = compare(runs, options)
    except ScopeRefused:
        raise
    except CannotAnswer as why:
        return {"account": None, "lines": lines_of_pair((), None, str(why).rstrip(".")), "letters": {}}
    account = account_of_change(compared.facts.get("change"))
    letters = {row["letter"]: row["name"] for row in account["rows"]} if account else {}
    return {"account": account, "lines": compared.facts["lines"], "letters": letters}


def _changes(a: Overview, b: Overview, headline: Headline | None) -> tuple[str, ...]:
    """Sentences: the pair's headline, the category with the largest change, device utilisation, host CPU time."""
    sentences = [f"{headline.with_subject}."] if headline is not None else []
    if headline is not None and headline.moved:
        moved = {name: b.times.get(name, 0.0) - a.times.get(name, 0.0) for name in {**a.times, **b.times}}
        name = max(sorted(moved), key=lambda category: abs(moved[category]), default=None)
        if name is not None and moved[name]:
            longer = "more" if moved[name] > 0 else "less"
            much = units.duration(abs(moved[name]))
            what = _CATEGORY.get(name, name)
            sentences.append(f"{what} takes {much} {longer} {units.each(b.word)}, the largest change.")
    return (*sentences, *_devices(a, b), *_host(a, b))


_CATEGORY = {"Runtime": "Time in runtime calls", "CPU Exec": "Host code", "Kernel": "Kernel time", "Memcpy": "Copying",
             "Memset": "Setting memory", "DataLoader": "The DataLoader", "Other": "Other time"}


def _devices(a: Overview, b: Overview) -> list[str]:
    """One line with the busy share of the devices in A and in B (in steps, if any), where it differs."""
    before, after = _busy(a), _busy(b)
    same = mapped(before, list(after))
    within = " in steps" if all(side.facts.get("in_steps") for side in (a, b)) else ""
    differ = []
    for name, now in after.items():
        was = before.get(same.get(name, name))
        if was is not None and now is not None and round(was, 3) != round(now, 3):
            shown = f"{same[name]} in A and {name} in B are" if name in same else f"{name or 'The device'} is"
            times = f"{units.percent(100 * was)} of the time{within} in A, {units.percent(100 * now)} in B"
            differ.append((abs(now - was), f"{display(shown, 48)} busy {times}"))
    differ.sort(key=lambda one: -one[0])
    listed = "; ".join(text for _, text in differ[:SHOWN])
    more = f"; {units.count(len(differ) - SHOWN)} more devices differ" if len(differ) > SHOWN else ""
    return [f"{listed}{more}."] if listed else []


def _busy(side: Overview) -> dict[str, float | None]:
    """Busy share of each device, in the steps where there are any."""
    steps: dict[str, Any] = side.facts.get("in_steps") or side.facts
    return {device["device"]: device.get("busy") for device in steps["devices"]}


def _host(a: Overview, b: Overview) -> list[str]:
    """On-CPU and run-queue shares of the process, where they differ clearly between the runs."""
    sentences = []
    for key, what in (("on_cpu", "is on a CPU"), ("queued", "waits for a CPU")):
        was, now = a.host.get(key), b.host.get(key)
        if was is not None and now is not None and abs(now - was) > WORTH_SAYING * max(was, now):
            sentences.append(f"The process {what} {units.percent(100 * was)} of the {b.word} in A, "
                        f"{units.percent(100 * now)} in B, all threads together.")
    return sentences


VIEW = View("overview", COLUMNS, build, pair_columns=side_by_side(COLUMNS), scopes_itself=True, noun="categories")
