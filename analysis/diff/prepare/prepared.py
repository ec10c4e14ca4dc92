"""Prepares two runs for comparison: same devices, kinds of cycles and names, collectives without their waits.

The table and the details of a suspect both start here, so that they use the same numbers. Prefill is compared with
prefill: a run that holds more of it is not slower. A replayed graph has no gaps between its kernels that could be
compared with a run that launches them one by one.
"""

from __future__ import annotations

from collections import Counter

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ....loaders.trace import Trace
from ...contract.options import Options
from ...core import device_pairs as devices
from ...core.processes import recorded
from . import collectives, renamed
from .idle_time import with_idle_time
from .renamed import Key, with_swapped
from .samples import HOST, Matched, Work, match

SHOWN = 3  # Most processes named in the notes, per run.


class Prepared(Struct, frozen=True):
    """``names`` maps (A's function, device) to B's name of it where that differs, ``moved`` B's devices to A's names.
    ``works`` have no rows: ``matched`` holds them as matrices, and rows take three times the memory. ``waits`` and
    ``timings`` were taken out of collectives; ``notes`` are sentences on what was done. ``parts`` maps each swapped
    kernel to the operator row it is part of."""

    works: tuple[Work, Work]
    matched: list[Matched]
    names: dict[tuple[str, str | None], str]
    moved: dict[str, str]
    waits: collectives.CollectiveWaits
    timings: list[collectives.CollectiveTiming]
    notes: tuple[str, ...]
    parts: dict[Key, Key]


def prepared(a: Work, b: Work, options: Options) -> Prepared:
    """Match the work of two runs. Raises CannotAnswer for an unknown pid."""
    a, b, moved = _on_one_device(a, b)
    a, b, excluded = same_kind(a, b)
    works, names = _under_one_name(a, b, moved, options)
    pairs = match(*works, options)
    alone = [] if options.pid_a is not None or options.pid_b is not None else _alone(pairs, works)
    matched, waits, timings = collectives.split(pairs)
    matched, parts = with_swapped(matched, works, names, moved, options)
    matched = with_idle_time(matched, works, moved, options)
    works = replace(works[0], rows=works[0].rows.clear()), replace(works[1], rows=works[1].rows.clear())
    return Prepared(works, matched, names, moved, waits, timings, (*devices.note(moved), *excluded, *alone), parts)


def _alone(matched: list[Matched], works: tuple[Work, Work]) -> list[str]:
    """Notes on processes without a counterpart in the other run, which are not compared; of jobs, in common ranks."""
    result = []
    pairs, ranks = [one.pair for one in matched], {one.pair.rank for one in matched}
    for work, name, other, used in zip(
            works, "AB", "BA", ({pair.a for pair in pairs}, {pair.b for pair in pairs}), strict=True):
        elsewhere = {called for called, process in work.processes.items() if {None, process.rank}.isdisjoint(ranks)}
        left = work.rows.filter(~pl.col("pid").is_in(list(used | elsewhere))).group_by("pid").agg(
            pl.col("device").cast(pl.String).unique().sort()) if used else work.rows.clear()
        for pid, where in left.select("pid", "device").sort("pid").rows()[:SHOWN]:
            ran = ", ".join(device for device in where if device not in (None, HOST)) or "no device"
            process = f"Process {recorded(work.processes, pid)} of {name}"
            result.append(f"{process} ({ran}) has no counterpart in {other} and is not compared.")
        if left.height > SHOWN:
            result.append(f"{left.height - SHOWN} more processes of {name} have none in {other}.")
    return result


def _on_one_device(a: Work, b: Work) -> tuple[Work, Work, dict[str, str]]:
    """B under the names of A's devices if the runs used different ones, and these renames (B's name → A's)."""
    pairs = devices.mapped(a.rows["device"].unique(), b.rows["device"].unique())
    if not pairs:
        return a, b, pairs
    under = devices.renamed_devices(pairs)
    return a, replace(b, rows=b.rows.with_columns(under), metrics=b.metrics.with_columns(under)), pairs


def _under_one_name(
    a: Work, b: Work, moved: dict[str, str], options: Options
) -> tuple[tuple[Work, Work], dict[tuple[str, str | None], str]]:
    """B's renamed functions under A's names; and (A's function, device) → B's name."""
    pairs = renamed.renamed(a, b, moved, options)
    if not pairs:
        return (a, b), {}
    table = pl.DataFrame(
        [(now, device, was) for (now, device), was in pairs.items()],
        schema={"function": pl.String, "device": pl.String, "was": pl.String}, orient="row",
    )

    def under(frame: pl.DataFrame) -> pl.DataFrame:
        function = frame.schema["function"]
        renames = table.cast({"function": function, "device": frame.schema["device"], "was": function})
        joined = frame.join(renames, on=["function", "device"], how="left", nulls_equal=True, maintain_order="left")
        return joined.with_columns(pl.coalesce("was", "function").alias("function")).drop("was")

    back = {(was, device): now for (now, device), was in pairs.items()}
    return (a, replace(b, rows=under(b.rows), metrics=under(b.metrics))), back


MOSTLY = 0.5  # A run with at least this share of kernel time in graph launches counts as replaying graphs.


class Replays(Struct, frozen=True):
    """The share of a run's kernel time in graph launches, and the number of graph launches."""

    share: float
    count: int


def replays(run: Trace) -> Replays:
    """The graph launches of a run: kernels with the same launch are one replay. A run without kernels has none."""
    if not run.has("kernels"):
        return Replays(0.0, 0)
    work = run.kernels.filter(pl.col("kind").is_in(["kernel", "collective"]))
    under = pl.col("graph").is_not_null()
    launch = pl.coalesce(pl.when(pl.col("correlation") > 0).then("correlation"), "graph")
    result = work.select(
        (pl.col("dur_ns").filter(under).sum() / pl.col("dur_ns").sum()).alias("share"),
        pl.struct("rank", "device", launch.alias("launch")).filter(under).n_unique().alias("count"),
    ).collect(engine="streaming")
    return Replays(float(result["share"][0] or 0.0), int(result["count"][0]))


def replay_reasons(both: tuple[Replays, Replays]) -> list[str]:
    """One sentence where one run replays graphs and the other launches its kernels one by one."""
    a, b = (side.share >= MOSTLY for side in both)
    if a == b:
        return []
    return [f"{'A' if a else 'B'} replays graphs, {'B' if a else 'A'} launches its kernels one by one"]


def replay_notes(both: tuple[Replays, Replays]) -> list[str]:
    """A note for each run that holds a single captured graph replay: idle time cannot be measured from it."""
    return [
        f"{name} holds one captured graph replay: idle time cannot be measured from it."
        for name, side in zip("AB", both, strict=True) if side.share >= MOSTLY and side.count == 1
    ]


def same_kind(a: Work, b: Work) -> tuple[Work, Work, list[str]]:
    """Both runs restricted to the kind of cycle, of those both have, that takes most time; and a note on what was left
    out. Runs whose cycles are all of the same kind are returned unchanged."""
    spans = [dict(work.rows.select("cycle", "cycle_ns").unique("cycle").rows()) for work in (a, b)]
    kinds = [Counter(work.kinds[c] for c in of if c in work.kinds) for work, of in zip((a, b), spans, strict=True)]
    both = sorted(set(kinds[0]) & set(kinds[1]))
    if len(set(kinds[0]) | set(kinds[1])) < 2 or not both:
        return a, b, []
    numbers = {kind: [[c for c, of in work.kinds.items() if of == kind] for work in (a, b)] for kind in both}
    chosen = max(both, key=lambda kind: sum(
        of.get(cycle) or 0 for of, some in zip(spans, numbers[kind], strict=True) for cycle in some))
    left = sum(sum(side.values()) - side[chosen] for side in kinds)
    note = f"Only {chosen} cycles are compared with each other; {left} of other kinds are left out."
    a, b = (
        replace(work, rows=work.rows.filter(own), metrics=work.metrics.filter(own))
        for work, some in zip((a, b), numbers[chosen], strict=True) for own in [pl.col("cycle").is_in(some)]
    )
    return a, b, [note]
