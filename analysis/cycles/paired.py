"""A view's answers for two runs side by side, with their sums compared per cycle.

A recording with more cycles than another has larger sums without being slower. Where both runs have cycles, each sum
column gets a second one: the sum over the whole cycles of its run, per cycle (for a job per cycle and rank; with
prefill and decode weighted by the same share of each kind in both runs). A view defines its answer for one run and
which columns are sums (``Column.pairs``); all the rest is here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..contract.column import Column, keys_of, ranked_sums, with_cycle_sums
from ..contract.options import SIDES, Options, Side
from ..contract.view import Answer, CannotAnswer, Runs, ScopeRefused, lettered, merged_notes, neither
from ..core import units
from ..core.device_pairs import LINK, mapped, note, only_device, renamed_devices
from ..table.sides import Places, names_note, paired_rows

if TYPE_CHECKING:
    from .whole import WholeCycles


class OneRun(Struct, frozen=True):
    """A view's answer for one run: rows in all its columns, facts, sentences and notes. ``sums`` are sentences about
    sums over the recording, which are left out where runs are compared per cycle. ``lacking``: the run does not have
    the data, its sentence says why, and there are no rows.
    """

    frame: pl.DataFrame
    facts: dict[str, Any] = {}
    summary: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    lacking: bool = False

    def answer(self) -> Answer:
        """The view's answer for this run alone."""
        return Answer(self.frame.lazy(), self.facts, (*self.sums, *self.summary), self.notes)


Frames = tuple[pl.DataFrame, pl.DataFrame]
One = Callable[[Trace, Options, Side], OneRun]
Within = Callable[["WholeCycles", Options, Side], pl.DataFrame]
"""A view's rows limited to some cycles of a run. Raises CannotAnswer if nothing belongs to them."""


def paired(
    runs: Runs, options: Options, columns: Sequence[Column], one: One, within: Within | None = None,
    launched: bool = False,
) -> Answer:
    """The view's answer for two runs; ``within`` gives the rows of some cycles, by default those of ``one`` for the run
    limited to these cycles. ``launched``: some columns sum activities over the call that launched them; cycles in which
    that is unknown are left out. Raises CannotAnswer.
    """
    sides = _both(runs, options, one)

    def inside(cycles: WholeCycles, options: Options, side: Side) -> pl.DataFrame:
        return one(cycles.part, options, side).frame

    frames = [side.frame for side in sides]
    if any(side.lacking for side in sides):
        per = _whole_recordings(frames, columns)
    else:
        per = cycle_sums(runs, options, columns, frames, within or inside, launched)
    (a, b), moved = on_the_same_devices(per.frames)
    places = [None if side.lacking else _places(run, frame, names)
              for side, run, frame, names in zip(sides, runs, (a, b), ({}, moved), strict=True)]
    joined = paired_rows(a, b, with_cycle_sums(columns), (places[0], places[1]))
    lines = lettered([side.summary for side in sides])
    summary = lettered([(*side.sums, *side.summary) for side in sides])
    return Answer(
        joined.lazy(), {side: result.facts for side, result in zip(SIDES, sides, strict=True)} | per.facts, summary,
        (*merged_notes([side.notes for side in sides]), *note(moved),
         *names_note(a, b, columns), *per.notes),
        cycle_summary=(per.sentence(joined, columns), *lines) if per.has_sums else (),
    )


def _both(runs: Runs, options: Options, one: One) -> list[OneRun]:
    """The answers for both runs; of one that lacks the data, no rows and why. Raises CannotAnswer if both do."""
    result: list[OneRun | CannotAnswer] = []
    for run, side in zip(runs, SIDES, strict=True):
        try:
            result.append(one(run, options, side))
        except ScopeRefused:
            raise
        except CannotAnswer as why:
            result.append(why)
    there = next((side for side in result if isinstance(side, OneRun)), None)
    if there is None:
        raise CannotAnswer(neither([run.info.label for run in runs], [str(why) for why in result]))
    return [side if isinstance(side, OneRun) else OneRun(there.frame.clear(), summary=(str(side),), lacking=True)
            for side in result]


def launched_in(
    frame: pl.DataFrame, of_all_calls: pl.DataFrame, columns: Sequence[Column], by_launch: Sequence[str]
) -> pl.DataFrame:
    """The rows of a piece of a run, in no order, with those ``by_launch`` from its rows ``with_host_of_parent``."""
    keys, sums = list(keys_of(columns)), [column.name for column in columns if column.sums]
    launched = of_all_calls.select(*keys, *by_launch, _launched=True)
    joined = frame.drop(by_launch).with_columns(_there=True).join(
        launched, on=keys, how="full", nulls_equal=True, coalesce=True)
    # a row that one of the two lacks has nothing of its sums; a sum that is unknown stays so
    there = pl.col("_there").is_not_null() & pl.col("_launched").is_not_null()
    nothing = (pl.when(there).then(pl.col(name)).otherwise(pl.col(name).fill_null(0)).alias(name) for name in sums)
    return joined.with_columns(nothing).select(frame.columns)


def _places(run: Trace, frame: pl.DataFrame, moved: dict[str, str]) -> Places:
    """The devices and ranks of a run, by A's names: those recorded and those of its rows."""
    devices = {moved.get(one.id, one.id) for one in run.info.devices}
    recorded: dict[str, set[Any]] = {"device": devices, "rank": set(run.info.ranks)}
    return {key: has | set(frame[key].drop_nulls().unique()) for key, has in recorded.items() if key in frame.columns}


def answered_by(
    columns: Sequence[Column], one: One, launched: bool = False
) -> Callable[[Runs, Options], Answer]:
    """The ``build`` function of a view whose answer is ``one`` for a run, or ``one`` for two runs side by side."""
    def build(runs: Runs, options: Options) -> Answer:
        alone = len(runs) == 1
        return one(runs[0], options, "a").answer() if alone else paired(
            runs, options, columns, one, launched=launched)

    return build


class CycleSums(Struct, frozen=True):
    """The frames of both runs with their sums per cycle; if ``has_sums`` is False, these are null."""

    frames: Frames
    has_sums: bool
    cycles: tuple[int, int] = (0, 0)
    ranks: int = 1
    notes: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """The unit that sums are compared per."""
        return {"per": "cycle" if self.has_sums else "recording"}

    def sentence(self, joined: pl.DataFrame, columns: Sequence[Column]) -> str:
        """The totals of both runs per cycle, and the number of cycles."""
        parts = []
        totals = [one for one in ranked_sums(with_cycle_sums(columns))
                if one.per == "cycle" and one.role in ("time", "count")]
        for column in totals:
            sums = [joined[f"{column.nests or column.name}_{side}"] for side in "ab"]
            if any(one.sum() for one in sums):
                shown = units.duration if column.unit == "ns" else units.number
                a, b = (shown(float(one.sum())) if one.count() else "unknown" for one in sums)
                parts.append(f"{column.header} {a} → {b}")
        of_a = units.counted(self.cycles[0], "whole cycle", "whole cycles")
        of_both = f"{of_a} in A, {units.count(self.cycles[1])} in B"
        if not totals:
            return f"Compared in whole cycles ({of_both})."
        if not parts and joined.height:
            outside = units.counted(joined.height, "row lies", "rows lie")
            return (f"Nothing in the cycles compared ({of_both}): {outside} outside of them, shown by --per recording "
                    "(% in the app).")
        return f"Per cycle{self._ranks(joined)}: {', '.join(parts) or 'nothing'} (mean of {of_both})."

    def _ranks(self, joined: pl.DataFrame) -> str:
        """Whether totals cover all devices or ranks together (rows are per rank or device); of a job else per rank."""
        several = [name for name in ("rank", "device") if name in joined.columns
                   and joined[name].cast(pl.String).str.strip_suffix(LINK).n_unique() > 1]
        if self.ranks < 2:
            return ", all devices together" if several else ""
        return ", all ranks together" if several else " and rank"


def cycle_sums(
    runs: Runs, options: Options, columns: Sequence[Column], frames: Sequence[pl.DataFrame], within: Within,
    launched: bool = False,
) -> CycleSums:
    """The frames of both runs with the sums that ``with_cycle_sums`` adds; ``launched``: only over cycles without
    activities that were launched before the recording."""
    from .whole import shared_kinds, whole_cycles, why_per_recording

    whole = [whole_cycles(run, options, side) for run, side in zip(runs, SIDES, strict=True)]
    result = [tuple(one.launched for one in side) for side in whole] if launched else whole
    kinds = [{one.kind: one for one in side} for side in result]
    if not any(one.sums or one.pairs == "single" for one in columns):
        return _whole_recordings(frames, columns)
    shared = shared_kinds(runs, options)
    if not shared:
        why = why_per_recording(runs, options)
        return _whole_recordings(frames, columns, (f"Sums are not per cycle: {why}.",))
    counts = {kind: [side[kind].frame.height for side in kinds] for kind in shared}
    every = sum(map(sum, counts.values()))
    shares = {kind: sum(counts[kind]) / every for kind in shared}
    with_sums = [
        _with_sums(frame, columns, [(shares[kind], side[kind]) for kind in shared], within, options, letter)
        for frame, side, letter in zip(frames, kinds, SIDES, strict=True)
    ]
    cycles = [sum(side[kind].frame.height for kind in shared) for side in kinds]
    ranks = max(one.ranks for side in result for one in side)
    notes = (*_mix(shares, kinds), *_before(whole, result))
    return CycleSums((with_sums[0], with_sums[1]), True, (cycles[0], cycles[1]), ranks, notes)


def _whole_recordings(
    frames: Sequence[pl.DataFrame], columns: Sequence[Column], notes: tuple[str, ...] = ()
) -> CycleSums:
    """The frames without sums per cycle."""
    none = [pl.lit(None, pl.Float64 if one.unit == "number" else pl.Int64).alias(one.name)
            for one in with_cycle_sums(columns) if one.per == "cycle" and one.sums]
    none += [pl.when(False).then(name).alias(its) for name, its in _single(columns)]
    return CycleSums((frames[0].with_columns(none), frames[1].with_columns(none)), False, notes=notes)


def _with_sums(
    frame: pl.DataFrame, columns: Sequence[Column], kinds: Sequence[tuple[float, WholeCycles]], within: Within,
    options: Options, side: Side,
) -> pl.DataFrame:
    """The frame with its sums per cycle, each kind of cycle weighted by its share."""
    keys, sums = keys_of(columns), [column for column in columns if column.sums]
    names = [column.name for column in with_cycle_sums(columns) if column.per == "cycle" and column.sums]
    total = frame.select(*keys, *(pl.lit(0.0).alias(name) for name in names))

    def rows_in(cycles: WholeCycles) -> tuple[pl.DataFrame, WholeCycles]:
        try:
            return within(cycles, options, side), cycles
        except CannotAnswer:  # the run has only sums over the whole recording, or no rows in these cycles
            return (frame, cycles.all_of_run()) if cycles.only_sums else (frame.clear(), cycles)

    for share, some in kinds:
        rows, cycles = rows_in(some)
        each = _divisor(rows, keys, cycles)
        inside = rows.select(*keys, *(
            _per_cycle(one, each, cycles.ranks).alias(f"_{name}") for one, name in zip(sums, names, strict=True)
        ), _there=pl.lit(True))
        joined = total.join(inside, on=list(keys), how="full", nulls_equal=True, coalesce=True, maintain_order="left")
        total = joined.select(*keys, *(
            (pl.col(name).fill_null(0.0) + share * pl.when("_there").then(f"_{name}").otherwise(0.0)).alias(name)
            for name in names
        ))
    whole = frame.join(total, on=list(keys), how="full", nulls_equal=True, coalesce=True, maintain_order="left")
    if single := _single(columns):
        rows = rows if len(kinds) == 1 else rows_in(kinds[0][1].with_kinds(some for _, some in kinds[1:]))[0]
        inside = rows.select(*keys, *(pl.col(name).alias(its) for name, its in single))
        whole = whole.join(inside, on=list(keys), how="left", nulls_equal=True, maintain_order="left")
    return whole.with_columns(
        _whole_number(pl.when(pl.col(one.name).is_not_null()).then(name), one).alias(name)
        for one, name in zip(sums, names, strict=True)
    )


def _single(columns: Sequence[Column]) -> list[tuple[str, str]]:
    """Each column about single calls, and the one about those in whole cycles."""
    both = [column.name for column in with_cycle_sums(columns) if column.pairs == "single"]
    return list(zip(both[::2], both[1::2], strict=True))


def _per_cycle(column: Column, cycles: pl.Expr, ranks: int) -> pl.Expr:
    if column.unit == "fraction":
        return pl.col(column.name)
    return pl.col(column.name) / (cycles / ranks if column.pairs == "shared" else cycles)


def _whole_number(value: pl.Expr, column: Column) -> pl.Expr:
    if column.unit == "fraction":
        return value
    return value.round(6) if column.unit == "count" else value.round().cast(pl.Int64)


def _divisor(rows: pl.DataFrame, keys: Sequence[str], cycles: WholeCycles) -> pl.Expr:
    """The number of cycles that a row sums over: those of its rank, else of the ranks that use its device, else all."""
    by_rank, every = cycles.by_rank(), cycles.frame.height
    if len(by_rank) < 2:
        return pl.lit(float(every))
    by_device = cycles.by_device() if "device" in keys and rows["device"].count() else {}
    result = pl.lit(float(every))
    if by_device:
        device = pl.col("device").cast(pl.String)
        result = device.replace_strict(by_device, default=every, return_dtype=pl.Float64)
    if "rank" in keys:
        rank = pl.col("rank").replace_strict(by_rank, default=None, return_dtype=pl.Float64)
        result = pl.coalesce(rank, result)
    return result


def on_the_same_devices(frames: Frames) -> tuple[Frames, dict[str, str]]:
    """The frames with B's devices renamed to A's where the runs used different ones, and the mapping of the names."""
    a, b = frames
    if "device" not in a.columns:
        return frames, {}
    names = [frame["device"].unique().cast(pl.String).to_list() for frame in frames]
    if (only := only_device(*names)) is not None:
        named = pl.col("device").fill_null(only)
        return (a.with_columns(named), b.with_columns(named)), {}
    moved = mapped(*names)
    return (a, b.with_columns(renamed_devices(moved))), moved


def _before(whole: Sequence[Sequence[WholeCycles]], used: Sequence[Sequence[WholeCycles]]) -> tuple[str, ...]:
    """Notes on the whole cycles that are left out because some of their work was launched before the recording."""
    height = [[sum(one.frame.height for one in side) for side in sides] for sides in (whole, used)]
    return tuple(
        f"{letter}: {units.counted(all_of - some, 'whole cycle', 'whole cycles')} left out of what is compared per "
        "cycle: some of the work was launched before the recording, by an unknown call."
        for letter, all_of, some in zip("AB", *height, strict=True) if some < all_of
    )


def _mix(shares: dict[str, float], kinds: Sequence[dict[str, WholeCycles]]) -> tuple[str, ...]:
    """Notes on what a cycle is where there are several kinds."""
    notes = []
    if len(shares) > 1:
        parts = " and ".join(f"{units.percent(100 * share, places=0)} {kind}" for kind, share in shares.items())
        notes.append(f"A cycle is {parts} in both runs: the mean cycle of each kind, with the same weights.")
    for letter, side in zip("AB", kinds, strict=True):
        for kind in sorted(set(side) - set(shares)):
            count = units.counted(side[kind].frame.height, f"{kind} cycle", f"{kind} cycles")
            notes.append(f"{count} of {letter} left out of what is compared per cycle: the other run has none.")
    return tuple(notes)
