"""The first page of one run, as facts: one step accounted for, the whole run on a time axis, the answer in lines.

The account divides one step (without steps the recording) of the main device: every nanosecond has one owner, so the
rows add up to the fact ``base``. Phases are the steps and the fact ``outside`` on one line; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np
import polars as pl

from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..contract.options import SIDES, Options, Side
from ..core.intervals import union
from ..cycles.base import MainWindow, main_window
from ..cycles.detection import Cycles, view_cycles
from ..cycles.scope import scoped_any_cycle
from ..cycles.step_facts import kept
from ..cycles.step_times import main_devices
from ..findings.evidence.outside import recorded_span
from ..idle.account import IDLE, account_in
from ..idle.cause_meanings import CAUSE_LETTERS, LABELS, idle_name
from ..kernels.family import LETTERS, TITLES, family
from .lines import lines_of

COLUMNS = 100
MOST_STEPS = 25
"""Up to so many steps each is a phase of its own: at least four of the hundred columns; more are put together."""
SHORT = 0.05
"""A stretch between two steps that is shorter than this share of a step is drawn into the next one."""
NOT_RECORDED = ("N", "not recorded")
Owners = dict[tuple[str, str], float]


def first_page(run: Trace, options: Options, side: Side, facts: dict[str, Any]) -> dict[str, Any]:
    """The facts ``account phases load lines letters`` of an overview; ``facts`` are its own with those of every view
    (``step base outside``)."""
    scoped = scoped_any_cycle(run, options, side)
    cycles = view_cycles(scoped, options)
    account = account_facts(scoped, cycles, facts.get("base"))
    letters = {row["letter"]: row["name"] for row in account["rows"]} if account else {}
    return {
        "account": account, "phases": phases(scoped, cycles, facts.get("outside") or []), "load": load(scoped),
        "base": facts.get("base"), "step": facts.get("step"), "lines": lines_of(facts), "letters": letters,
    }


def account_facts(run: Trace, cycles: Cycles, base: dict[str, Any] | None) -> dict[str, Any] | None:
    """``{of_ns, rows: [{letter, name, ns, share}]}``, largest first; None where nothing was timed."""
    if base is None:
        return None
    owners = _of_steps(run, cycles) if base["per"] != "recording" else _of_recording(run)
    if owners is None:
        return None
    rows: dict[tuple[str, str], float] = {}
    for (kind, name), ns in owners.items():
        if kind == IDLE:
            key = (CAUSE_LETTERS[name], idle_name(name)) if name in CAUSE_LETTERS else NOT_RECORDED
        else:
            of = family(name, kind)
            key = (LETTERS[of], TITLES[of])
        rows[key] = rows.get(key, 0.0) + ns
    total = base["ns"]
    rest = total - sum(rows.values())
    if abs(rest) > 1_000:  # launches in no timeline, or a device that was not recorded whole
        rows[NOT_RECORDED] = rows.get(NOT_RECORDED, 0.0) + rest
    ordered = sorted(rows.items(), key=lambda one: (-one[1], one[0]))
    return {"of_ns": total, "rows": [
        {"letter": letter, "name": name, "ns": ns, "share": ns / total if total else None}
        for (letter, name), ns in ordered if round(ns)]}


def _of_steps(run: Trace, cycles: Cycles) -> Owners | None:
    """The mean step's owners, ns: the mean over ranks of the mean over each rank's kept cycles."""
    if run.has("profile"):
        return _of_profile(run, cycles)
    parts, rows = cycles.times.parts, kept(cycles.frame)["row"].cast(pl.Int64)
    if parts.is_empty():
        return _of_launches(run, cycles)
    found = []
    for rank, device in main_devices(cycles.times.devices).rows():
        name = cycles.times.devices.schema["device"]
        pieces = parts.filter(
            pl.col("rank").eq_missing(pl.lit(rank, pl.Int64)), pl.col("row").is_in(rows.implode()),
            pl.col("device").cast(pl.String).eq_missing(pl.lit(device).cast(name).cast(pl.String)),
        ).select(pl.col("row").alias("cycle"), "from_ns", "to_ns").filter(pl.col("to_ns") > pl.col("from_ns"))
        numbers = pieces["cycle"].unique().sort().to_list()
        owned = account_in(run, rank, device, pieces.sort("from_ns"), numbers) if numbers else None
        if owned is not None:
            found.append({owner: float(ns.sum()) / len(numbers) for owner, ns in owned.items()})
    every = dict.fromkeys(owner for one in found for owner in one)
    return {owner: sum(one.get(owner, 0.0) for one in found) / len(found) for owner in every} if found else None


def _of_launches(run: Trace, cycles: Cycles) -> Owners | None:
    """Of launches without times: the mean summed time of each function in the kept cycles, by recorded order."""
    spans = kept(cycles.frame).select("first_index", "last_index").drop_nulls().sort("first_index")
    if spans.is_empty() or not run.has("kernels"):
        return None
    rows = run.kernels.select("index", pl.col("name", "kind").cast(pl.String), "dur_ns").collect(engine="streaming")
    index, last = rows["index"].to_numpy(), spans["last_index"].to_numpy()
    at = np.searchsorted(spans["first_index"].to_numpy(), index, side="right") - 1
    inside = (at >= 0) & (index <= last[np.maximum(at, 0)])
    sums = rows.filter(pl.Series(inside)).group_by("name", "kind").agg(pl.col("dur_ns").sum())
    return {(kind or "kernel", name or ""): ns / spans.height for name, kind, ns in sums.rows() if ns}


def _of_profile(run: Trace, cycles: Cycles) -> Owners:
    """Of a cycle profile, which has no timeline: the mean summed time of each function on the device with most."""
    numbers = kept(cycles.frame)["cycle"].cast(pl.Int64)
    functions = run.profile.filter(
        pl.col("cycle").cast(pl.Int64).is_in(numbers.implode()), pl.col("device") != "Host"
    ).unique(["cycle", "pid", "function", "device"])
    sums = functions.group_by("device", "function", "kind").agg(pl.col("dur_ns").sum()).cast(
        {"device": pl.String, "function": pl.String, "kind": pl.String}).collect(engine="streaming")
    if sums.is_empty() or not len(numbers):
        return {}
    most = sums.group_by("device").agg(pl.col("dur_ns").sum()).sort("dur_ns", "device", descending=[True, False])
    own = sums.filter(pl.col("device") == most["device"][0])
    return {(kind or "kernel", name): ns / len(numbers)
            for name, kind, ns in own.select("function", "kind", "dur_ns").rows()}


def _of_recording(run: Trace) -> Owners | None:
    """The owners of the main device's time from first to last activity; of launches without times their sums."""
    window = main_window(run)
    if window is None:
        return None
    if window.first_ns is not None:
        end = window.first_ns + round(window.ns)
        pieces = pl.DataFrame({"cycle": [0], "from_ns": [window.first_ns], "to_ns": [end]})
        owned = account_in(run, window.rank, window.device, pieces, [0])
        return None if owned is None else {owner: float(ns.sum()) for owner, ns in owned.items()}
    return _of_sums(run, window)


def _of_sums(run: Trace, window: MainWindow) -> Owners:
    if run.has("kernels"):
        rows = run.kernels.filter(pl.col("device").cast(pl.String).eq_missing(window.device), is_work())
        sums = rows.group_by("name", "kind").agg(pl.col("dur_ns").sum().alias("total_ns"))
    else:
        sums = run.kernel_stats.group_by("name", "kind").agg(pl.col("total_ns").sum())
    frame = sums.cast({"name": pl.String, "kind": pl.String}).collect(engine="streaming")
    return {(kind or "kernel", name or ""): float(ns) for name, kind, ns in frame.rows() if ns}


def account_of_change(change: dict[str, Any] | None) -> dict[str, Any] | None:
    """``{delta_ns, rows: [{letter, name, a_ns, b_ns, delta_ns}]}``: the diff's account of a change by family and idle
    cause, the largest change first; None without one."""
    if change is None or not change["causes"]:
        return None
    rows: dict[tuple[str, str], list[float]] = {}
    causes = {label: cause for cause, label in LABELS.items()}
    for one in change["causes"]:
        if one["kind"] == IDLE:
            cause = causes.get(one["name"], "")
            key = (CAUSE_LETTERS[cause], idle_name(cause)) if cause in CAUSE_LETTERS else NOT_RECORDED
        elif one["kind"] == "rest":
            key = NOT_RECORDED
        else:
            of = family(one["name"], one["kind"] if one["kind"] in ("collective", "memcpy", "memset") else "kernel")
            key = (LETTERS[of], TITLES[of])
        sums = rows.setdefault(key, [0.0, 0.0, 0.0])
        for at, name in enumerate(("a_ms", "b_ms", "delta_ms")):
            sums[at] += one[name] * 1e6
    ordered = sorted(rows.items(), key=lambda one: (-abs(one[1][2]), one[0]))
    return {"delta_ns": change["delta_ms"] * 1e6, "rows": [
        {"letter": letter, "name": name, "a_ns": a, "b_ns": b, "delta_ns": delta}
        for (letter, name), (a, b, delta) in ordered]}


def sides_of(
    runs: Sequence[Trace], options: Options, stated: dict[str, Any], account: bool
) -> dict[str, dict[str, Any]]:
    """The facts ``phases`` and ``load`` of each of two runs, in columns of one length, that of the longer run; with
    ``account`` also that of a step of each, where their difference has none. ``stated``: the facts of every view."""
    scoped = {side: scoped_any_cycle(run, options, side) for run, side in zip(runs, SIDES, strict=True)}
    spans = [recorded_span(run) for run in scoped.values()]
    longest = max((span[1] - span[0] for span in spans if span is not None), default=0)
    result: dict[str, dict[str, Any]] = {}
    for side, run in scoped.items():
        cycles = view_cycles(run, options)
        result[side] = {"phases": phases(run, cycles, stated[side].get("outside") or []),
                        "load": load(run, column_ns=longest / COLUMNS or None)}
        if account:
            result[side]["account"] = account_facts(run, cycles, stated[side].get("base"))
    return result


def load(run: Trace, columns: int = COLUMNS, column_ns: float | None = None) -> dict[str, Any] | None:
    """``{column_ns, devices: [{device, busy: [0–1 …]}]}``: how much of each column of the recording each device ran
    something; None without device activities with times. ``column_ns`` sets the length of a column instead of their
    number."""
    span = recorded_span(run)
    rows = run.kernels.filter(is_work()).select(
        "rank", pl.col("device").cast(pl.String), "start_ns", "dur_ns"
    ).drop_nulls(["start_ns", "dur_ns"]).collect(engine="streaming")
    if span is None or rows.is_empty() or span[1] <= span[0]:
        return None
    width = column_ns or (span[1] - span[0]) / columns
    columns = max(1, ceil((span[1] - span[0]) / width - 1e-6)) if column_ns else columns
    edges = (span[0] + np.arange(columns + 1) * width).round().astype(np.int64)
    devices = []
    for (rank, device), own in sorted(rows.group_by("rank", "device"), key=lambda one: str(one[0])):
        starts = own["start_ns"].to_numpy()
        busy = union(starts, starts + own["dur_ns"].clip(lower_bound=0).to_numpy()).within(edges[:-1], edges[1:])
        devices.append({"device": device, "rank": rank, "busy": [round(one, 6) for one in (busy / width).tolist()]})
    return {"column_ns": width, "devices": devices}


def phases(run: Trace, cycles: Cycles, outside: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``[{kind, label, from_ns, to_ns}]`` of the first rank's main device, from first to last event: the steps (many
    of them as runs of consecutive ones) and what lies outside them. Empty without steps that have times."""
    parts = cycles.times.parts
    if cycles.ignored is not None or parts.is_empty():
        return []
    rank, device = main_devices(cycles.times.devices).row(0)
    own = parts.filter(pl.col("rank").eq_missing(pl.lit(rank, pl.Int64)), pl.col("row").is_not_null(),
                       pl.col("device").cast(pl.String).eq_missing(device))
    steps = own.group_by("row").agg(pl.col("from_ns").min(), pl.col("to_ns").max()).sort("from_ns").join(
        cycles.frame.select(pl.col("row").cast(pl.Int64), pl.col("cycle").cast(pl.Int64)), on="row", how="left")
    median = float((steps["to_ns"] - steps["from_ns"]).median() or 0)  # type: ignore[arg-type]
    gaps = [one for one in outside if one["rank"] == rank
            and (one["kind"] in ("start-up", "end") or one["to_ns"] - one["from_ns"] >= SHORT * median)]
    result: list[dict[str, Any]] = []
    for number, begin, end in steps.select("cycle", "from_ns", "to_ns").rows():
        since = result[-1]["to_ns"] if result else None
        before = [one for one in gaps if one["to_ns"] <= begin and (since is None or one["from_ns"] >= since)]
        result += [_phase(one["kind"], one["what"], one["from_ns"], one["to_ns"]) for one in before]
        if result and result[-1]["kind"] == "step" and not before and steps.height > MOST_STEPS:
            result[-1]["to_ns"], result[-1]["last"] = end, number
        else:
            start = result[-1]["to_ns"] if result and not before else begin
            result.append({**_phase("step", "", start, end), "first": number, "last": number})
    last = result[-1]["to_ns"]
    result += [_phase(one["kind"], one["what"], one["from_ns"], one["to_ns"]) for one in gaps if one["from_ns"] >= last]
    for one in result:
        if one["kind"] == "step":
            first, final = one.pop("first"), one.pop("last")
            one["label"] = str(first) if first == final else f"{first}–{final}"
    return result


def _phase(kind: str, what: str, begin: int, end: int) -> dict[str, Any]:
    return {"kind": kind, "label": what, "from_ns": begin, "to_ns": end}
