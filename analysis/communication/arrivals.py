"""The arrivals at each collective, on one clock: how long each member waited, the transfer time, who was last.

A member waits from its own arrival to the last one's, but never longer than its own activity ran. The transfer is the
shortest of the durations: that of the member which waited for nobody.

Activities are matched to one collective by process group and sequence number, where recorded. Else they are matched by
their order within the group, and a member whose recording began later or ended sooner is shifted to where kinds and
sizes agree. An activity that disagrees in kind, or in size where all must be equal, stays unmatched and is counted.
Sends and receives are no collectives: those with a source and a target are the ends of messages (``messages``).

Matched activities are one collective only if they overlap on the common clock. Order alone also matches activities that
never met: the recording of one rank may begin at another collective than that of the next, or two files of one folder
may belong to different jobs. Waits would then be longer than anything recorded. A member whose ends deviate from those
of the others by more than a collective lasts has no common clock with them.

Clock offsets come from the collectives that end for all members at once. A member's offset is the median of its ends
minus the ends that the others agree on; the spread of these differences is its residual. Members that share no
collective, even indirectly, have unrelated clocks: the offsets of each such set count from its first member.
"""

from __future__ import annotations

from functools import cached_property
from typing import cast

import numpy as np
import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from ...loaders.trace import OPERATIONS, Trace
from ..core import units
from .collectives import ENDS_TOGETHER, ONE_SIZE, PAIRED, Collectives, Member, collectives_of
from .messages import Messages, messages_of, with_messages


def overlapping(frame: pl.DataFrame, clocks: Clocks) -> pl.DataFrame:
    """The activities (``instance member start_ns end_ns dur_ns``), with ``instance`` null for those that overlap no
    other. A collective keeps those that ran at the moment when most of its members ran, within the clocks' residual."""
    rows = frame.select("instance", "member", "start_ns", "end_ns", "dur_ns").with_row_index("row")
    rows = rows.drop_nulls("instance")
    if rows.is_empty():
        return frame
    offset = pl.lit(pl.Series(np.nan_to_num(clocks.offset))).gather(pl.col("member"))
    doubt = pl.lit(pl.Series(np.nan_to_num(clocks.residual))).gather(pl.col("member"))
    rows = rows.with_columns(
        come=pl.col("start_ns") - offset - doubt, leave=pl.col("end_ns") - offset + doubt, doubt=doubt,
        longest=pl.col("dur_ns").max().over("instance"),
    ).with_columns(clock=pl.col("doubt").first().over("member") <= pl.col("longest").median().over("member"))
    rows = rows.filter("clock")
    apart = rows.filter(pl.col("come").max().over("instance") > pl.col("leave").min().over("instance"))
    met = rows.join(_moments(apart), on="instance", how="left").filter(
        pl.col("moment").is_null() | pl.col("moment").is_between("come", "leave")
    ).filter(pl.len().over("instance") > 1)
    stays = np.zeros(frame.height, dtype=bool)
    stays[met["row"].to_numpy()] = True
    return frame.with_columns(instance=pl.when(pl.Series(stays)).then("instance"))


def _moments(rows: pl.DataFrame) -> pl.DataFrame:
    """``instance moment``: for each collective, the first moment at which most of its activities ran."""
    sides = (("come", 1), ("leave", -1))
    edges = pl.concat([rows.select("instance", moment=side, step=pl.lit(step)) for side, step in sides])
    edges = edges.sort("instance", "moment", "step", descending=[False, False, True])
    running = edges.with_columns(running=pl.col("step").cum_sum().over("instance"))
    most = running.filter(pl.col("running") == pl.col("running").max().over("instance"))
    return most.unique("instance", keep="first", maintain_order=True).select("instance", "moment")


class Arrivals(Struct, frozen=True, dict=True):
    """The collectives of a run with the waits at them. ``frame`` has the columns of ``Collectives.frame``, ``instance``
    and, null for unmatched ones, ``arrival_ns`` (float, on the clock of the first member), ``wait_ns``,
    ``message``, ``sends``, ``certain`` and ``pair`` (``messages``), ``transfer_ns``, ``lead_ns`` (how far the last one
    came behind the second last), ``last`` (whether this member was last), ``parties`` (number of recorded members) and
    ``caused_ns`` (for the last member: the summed waits of all others). ``apart`` counts activities that number or
    order match but that ran at different times."""

    frame: pl.DataFrame
    members: tuple[Member, ...]
    clocks: Clocks
    matching: MatchedCollectives
    apart: int = 0
    messages: Messages = field(default_factory=lambda: Messages(pl.DataFrame()))

    @cached_property
    def met(self) -> pl.DataFrame:
        """The activities of matched collectives, without messages: the last of a pipeline is not its slowest."""
        return self.frame.filter(pl.col("instance").is_not_null(), pl.col("message").is_null())

    @cached_property
    def evidence(self) -> dict[int, str]:
        """By which evidence the clock of each member is known: ``seq``, ``step`` or ``order``."""
        how = pl.when(pl.col("seq").is_not_null()).then(pl.lit("seq")).when(pl.col("step").is_not_null()).then(
            pl.lit("step")).otherwise(pl.lit("order"))
        counted = self.met.group_by("member", how=how).len().sort("len", "how")
        return dict(counted.select("member", "how").rows())

    @property
    def count(self) -> int:
        """How many collectives were matched."""
        return int(self.met["instance"].n_unique())

    @property
    def paired(self) -> int:
        """How many messages were paired."""
        return int(self.frame.filter(pl.col("instance").is_not_null())["message"].drop_nulls().n_unique())

    @property
    def unpaired(self) -> int:
        """How many sends and receives with a source and a target have no other end."""
        return self.messages.labelled - 2 * self.paired

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats about the matching and the clocks."""
        lines = []
        if len(self.members) > 1 and self.messages.unlabelled:
            some = units.counted(self.messages.unlabelled, "SendRecv kernel", "SendRecv kernels")
            lines.append(f"{some} without source and target: not paired.")
        if len(self.members) > 1 and not self.count and not self.paired:
            lines.append("No collective was found on several ranks: waits are unknown and clocks are as recorded.")
        elif self.matching.unmatched:
            lines.append(f"{self.matching.unmatched:,} of {self.frame.height:,} collectives have no counterpart on "
                         "another rank: their waits are unknown.")
        if self.apart:
            lines.append(
                f"{self.apart:,} collectives are unmatched: they never overlapped with the one of the same number.")
        if self.clocks.apart > 1:
            lines.append(
                f"{self.clocks.apart} sets of ranks share no collective: clocks are not comparable between the sets.")
        return tuple(lines)


def arrivals_of(run: Trace) -> Arrivals:
    """The arrivals at every collective of the run, cached."""
    return run.remember("arrivals", (), lambda: _arrivals(
        collectives_of(run), OPERATIONS in run.info.facts, run.info.epoch_ns is not None))


def _arrivals(collectives: Collectives, one_clock: bool = False, wall_clock: bool = False) -> Arrivals:
    messages = messages_of(collectives)
    collectives = replace(collectives, frame=with_messages(collectives.frame, messages))
    pairs = matched(collectives, wall_clock)
    clocks = clocks_of(pairs.frame, len(collectives.members))
    met = overlapping(pairs.frame, clocks)
    apart = met["instance"].null_count() - pairs.frame["instance"].null_count()
    if apart:
        pairs = replace(pairs, frame=met, unmatched=pairs.unmatched + apart)
        clocks = clocks_of(met, len(collectives.members))
    if messages.frame.height:  # two ranks that no collective links have the clock of their messages
        first = int(pairs.frame["instance"].max() or 0) + 1  # type: ignore[arg-type]
        frame = pairs.frame.with_columns(instance=pl.coalesce("instance", pl.col("message") + first))
        talking = frame.filter(pl.col("message").is_not_null())["member"].unique().to_numpy()
        if clocks.apart > 1 or (clocks.sets[talking] < 0).any():
            clocks = clocks_of(frame, len(collectives.members))
        pairs = replace(pairs, frame=_overlapping_ends(frame, clocks))
    if one_clock:
        zeros = np.zeros(len(collectives.members))
        clocks = Clocks(zeros, np.full(len(zeros), np.nan), zeros.astype(np.int64))
    offsets = pl.Series(np.nan_to_num(clocks.offset), dtype=pl.Float64)
    one = pl.col("instance").is_not_null()
    own = pl.lit(offsets).gather(pl.col("member")) if len(offsets) else pl.lit(0.0)
    last, second = pl.col("arrival_ns").max(), pl.col("arrival_ns").top_k(2).min()
    frame = pairs.frame.with_columns(arrival_ns=pl.when(one).then(pl.col("start_ns") - own)).with_columns(
        behind=pl.when(one).then(last.over("instance") - pl.col("arrival_ns")),
        lead_ns=pl.when(one).then((last - second).over("instance")),
        parties=pl.when(one).then(pl.len().over("instance")),
        transfer_ns=pl.when(one).then(pl.col("dur_ns").min().over("instance")),
    ).with_columns(
        wait_ns=pl.when(one).then(pl.min_horizontal("behind", "dur_ns")).round().cast(pl.Int64),
        last=(pl.col("behind") == 0) & (pl.col("lead_ns") > 0),
    ).with_columns(caused_ns=pl.when("last").then(pl.col("wait_ns").sum().over("instance"))).drop("behind")
    return Arrivals(frame, collectives.members, clocks, pairs, apart, messages)


def _overlapping_ends(frame: pl.DataFrame, clocks: Clocks) -> pl.DataFrame:
    """The activities, with ``instance`` null for the ends of messages that only order pairs and that never overlapped
    on the common clock."""
    own, doubt = (pl.lit(pl.Series(np.nan_to_num(one))).gather(pl.col("member"))
                  for one in (clocks.offset, clocks.residual))
    come, leave = pl.col("start_ns") - own - doubt, pl.col("end_ns") - own + doubt
    apart = pl.col("message").is_not_null() & ~pl.col("certain") & (
        come.max().over("message") > leave.min().over("message"))
    return frame.with_columns(instance=pl.when(~apart.fill_null(False)).then("instance"))


Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
LEAST = 3  # Collectives needed for a clock's residual; fewer agree by construction.
_ROUNDS = 2
_TO_DEVIATION = 1.4826  # From the median of absolute deviations to the standard deviation of a normal distribution.


class Clocks(Struct, frozen=True):
    """Per member, in ns: how far its clock is ahead of the first one's (``offset``), and the spread of the measurements
    (``residual``). NaN where it shares no collective (``offset``), or too few (``residual``). ``sets``: the number,
    from 0, of the set of members that collectives connect it with; -1 for none."""

    offset: Floats
    residual: Floats
    sets: np.ndarray[tuple[int], np.dtype[np.int64]]

    @property
    def apart(self) -> int:
        """The number of sets of members; no collective connects two sets."""
        return int(self.sets.max(initial=-1)) + 1


def clocks_of(frame: pl.DataFrame, members: int) -> Clocks:
    """The clocks of this number of members from their matched collectives (``instance member end_ns kind``)."""
    rows = frame.drop_nulls("instance")
    together = rows.filter(pl.col("kind").is_in(ENDS_TOGETHER))
    lacking = set(rows["member"]) - set(together["member"])
    rows = rows if lacking else together
    offset, sets = np.full(members, np.nan), np.full(members, -1, dtype=np.int64)
    residual = np.full(members, np.nan)
    if rows.is_empty():
        return Clocks(offset, residual, sets)
    zero = rows["end_ns"].min()
    rows = rows.select("instance", "member", end=(pl.col("end_ns") - pl.lit(zero)).cast(pl.Float64))
    for number in range(members):
        left = rows.filter(pl.col("member").is_in(np.flatnonzero(np.isnan(offset)).tolist()))
        if left.is_empty():
            break
        first = int(left["member"].to_numpy().min())
        offset[first], sets[first] = 0.0, number
        _spread(rows, offset, sets, number)
        matching = rows.filter(pl.col("member").is_in(np.flatnonzero(sets == number).tolist()))
        for _ in range(_ROUNDS):
            offsets_of = _with_end_offsets(matching, offset).group_by("member").agg(pl.col("apart").median())
            offset[offsets_of["member"].to_numpy()] = offsets_of["apart"].to_numpy()
            offset[sets == number] -= offset[first]
    apart = _with_end_offsets(rows, offset).with_columns(
        left=(pl.col("apart") - pl.lit(pl.Series(offset)).gather(pl.col("member"))).abs()
    )
    spread = apart.group_by("member").agg(pl.col("left").median() * _TO_DEVIATION, pl.len())
    enough = spread.filter(pl.col("len") >= LEAST)
    residual[enough["member"].to_numpy()] = enough["left"].to_numpy()
    return Clocks(offset, residual, sets)


def _with_end_offsets(rows: pl.DataFrame, offset: Floats) -> pl.DataFrame:
    """The rows with ``apart``: the end on the member's own clock minus its collective's end on the common clock."""
    own = pl.lit(pl.Series(offset)).gather(pl.col("member"))
    return rows.with_columns(at=pl.col("end") - own).with_columns(
        apart=pl.col("end") - pl.col("at").median().over("instance")
    )


def _spread(rows: pl.DataFrame, offset: Floats, sets: np.ndarray[tuple[int], np.dtype[np.int64]], number: int) -> None:
    """Set the offset of every member that shares collectives with the set, in rounds from its first member outward."""
    while True:
        in_set = pl.col("member").is_in(np.flatnonzero(sets == number).tolist())
        own = pl.lit(pl.Series(offset)).gather(pl.col("member"))
        ends = rows.filter(in_set).with_columns(at=pl.col("end") - own).group_by("instance").agg(pl.col("at").median())
        new = rows.filter(~in_set).join(ends, on="instance").with_columns(apart=pl.col("end") - pl.col("at"))
        medians = new.group_by("member").agg(pl.col("apart").median())
        if medians.is_empty():
            return
        offset[medians["member"].to_numpy()], sets[medians["member"].to_numpy()] = medians["apart"].to_numpy(), number


Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
BY_NUMBER, BY_ORDER = "process group and sequence number", "order within the group"
_SHIFTS = 64  # Collectives by which a recording may begin later than another and still be matched by order.
_ALONE = -1


class MatchedCollectives(Struct, frozen=True):
    """The collectives with ``instance``: the same number on all members for one collective, null for unmatched ones.
    ``how``: what they were matched by (None if nothing was matched); ``unmatched``: the number of activities without
    a counterpart."""

    frame: pl.DataFrame
    how: str | None
    unmatched: int


def matched(collectives: Collectives, wall_clock: bool = False) -> MatchedCollectives:
    """The collectives of all members, matched; with a single member nothing is matched. ``wall_clock``: the recorded
    clocks are one, to within what they are off."""
    place = np.full(collectives.frame.height, _ALONE, dtype=np.int64)
    lanes = _lanes(collectives.frame)
    unnumbered = pl.col("seq").is_null().any().over("lane")
    numbered, ordered = lanes.filter(~unnumbered), lanes.filter(unnumbered)
    parts = [_by_number(numbered)] if numbered.height else []
    for _, one in ordered.group_by("lane", maintain_order=True):
        number = pl.Series(_by_order(one, wall_clock)) if one["step"].null_count() == one.height else _by_step(one)
        parts.append(one.with_columns(number=number))
    if parts:
        numbered_rows = pl.concat(parts)
        place[numbered_rows["row"].to_numpy()] = _agreeing(numbered_rows)
    instance = pl.Series("instance", place)
    frame = collectives.frame.with_columns(instance.set(instance < 0, None))
    alone = frame.filter(~pl.col("kind").is_in(PAIRED))
    left = int(alone["instance"].null_count()) if len(collectives.members) > 1 else 0
    ways = [way for way, some in ((BY_ORDER, ordered), (BY_NUMBER, numbered)) if some.height]
    return MatchedCollectives(frame, " and ".join(ways) or None, left)


def _lanes(frame: pl.DataFrame) -> pl.DataFrame:
    """The activities of groups that several members recorded: ``row lane member kind end_ns seq step``. ``lane``
    numbers the groups; ``kind`` numbers the kinds and, where all members must have the same size, the sizes."""
    pairs = pl.col("kind").is_in(PAIRED)
    size = pl.when(pl.col("kind").is_in(ONE_SIZE)).then("bytes")
    shaped = pl.col("by").eq_missing(pl.lit("shape"))  # nothing recorded says what such a kernel belongs to
    rows = frame.with_row_index("row").filter(~pairs, ~shaped).with_columns(size=size)
    for name, keys in (("lane", ["group", "group_ranks"]), ("same", ["kind", "size"])):
        lanes = rows.select(keys).unique(maintain_order=True)
        if name == "same":
            lanes = lanes.sort(keys)
        lanes = lanes.select(*keys, pl.int_range(pl.len()).alias(name))
        rows = rows.join(lanes, on=keys, how="left", nulls_equal=True, maintain_order="left")
    several = rows.group_by("lane").agg(pl.col("member").n_unique()).filter(pl.col("member") > 1)["lane"]
    rows = rows.filter(pl.col("lane").is_in(several.implode()))
    return rows.select("row", "lane", "member", pl.col("same").alias("kind"), "end_ns", "seq", "step")


def _by_number(lanes: pl.DataFrame) -> pl.DataFrame:
    """The rows with ``number``, equal within a lane for equal sequence numbers. Several activities of a member with the
    same sequence number are numbered by their order."""
    number = _paired(lanes["lane"], _ranked(lanes["seq"]))
    own = pl.DataFrame({"own": _paired(number, lanes["member"])})
    if own["own"].n_unique() < lanes.height:
        number = _paired(number, own.select(pl.int_range(pl.len()).over("own")).to_series())
    return lanes.with_columns(number=number)


def _by_step(lane: pl.DataFrame) -> pl.Series:
    """Numbers by step and place in it, of steps that members recorded with equally many; the others have their own."""
    rows = lane.with_columns(count=pl.len().over("member", "step"), place=pl.int_range(pl.len()).over("member", "step"))
    whole = pl.col("step").is_not_null() & (pl.col("count") == pl.col("count").max().over("step"))
    return rows.with_row_index("at").select(
        pl.when(whole).then(pl.col("step").rank("dense") * pl.len() + pl.col("place")).otherwise(
            (pl.col("step").n_unique() + 2) * pl.len() + pl.col("at")).cast(pl.Int64).alias("number")).to_series()


def _by_order(lane: pl.DataFrame, wall_clock: bool) -> Ints:
    """Numbers by position within each member, shifted to where members agree; if one never does, position per kind. A
    member for which several shifts do is not matched."""
    kind = lane["kind"].to_numpy()
    members = lane["member"].to_numpy()
    bounds = np.flatnonzero(np.diff(members, prepend=-1, append=-1))
    parts = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    longest = max(parts, key=lambda group: group[1] - group[0])
    model, ends = kind[longest[0] : longest[1]], lane["end_ns"].to_numpy()
    model_ends = ends[longest[0] : longest[1]]
    numbers = np.empty(lane.height, dtype=np.int64)
    shifts = [_shift(kind[a:b], ends[a:b], model, model_ends, wall_clock) for a, b in parts]
    if None in shifts:
        per_kind = lane.with_columns(place=pl.int_range(pl.len()).over("member", "kind"))
        number: Ints = _paired(per_kind["kind"], per_kind["place"]).to_numpy()
        return number
    for at, ((a, b), shift) in enumerate(zip(parts, shifts, strict=True)):
        alone = (at + 2) * (lane.height + 2 * _SHIFTS) if shift == _UNCLEAR else shift or 0
        numbers[a:b] = np.arange(b - a) + alone
    return numbers + _SHIFTS


_UNCLEAR = 1 << 40  # Several shifts agree, and nothing tells which is right.
_AS_EVEN = 3.0


def _shift(own: Ints, ends: Ints, model: Ints, model_ends: Ints, wall_clock: bool) -> int | None:
    """The index in ``model`` of a member's first collective; None where kinds and sizes agree nowhere. Of several, the
    one with most matches, then the one with the most even differences between ends, because clocks differ by a
    constant. Of those about as even the recorded clock decides; without one, ``_UNCLEAR``."""
    if len(own) == len(model) and (own == model).all():
        return 0
    fits: list[tuple[int, float, float, int]] = []
    for shift in range(-_SHIFTS, len(model) - len(own) + _SHIFTS + 1):
        first, last = max(0, -shift), min(len(own), len(model) - shift)
        if 2 * (last - first) < len(own) or not (own[first:last] == model[first + shift : last + shift]).all():
            continue
        apart = ends[first:last] - model_ends[first + shift : last + shift]
        middle = float(np.median(apart))
        fits.append((last - first, float(np.median(np.abs(apart - middle))), abs(middle), shift))
    if not fits:
        return None
    most = max(one[0] for one in fits)
    best = [one for one in fits if one[0] == most]
    even = min(one[1] for one in best)
    best = [one for one in best if one[1] <= _AS_EVEN * even]
    if len(best) > 1 and not wall_clock:
        return _UNCLEAR
    return min(best, key=lambda one: one[2])[3]


def _agreeing(numbered_rows: pl.DataFrame) -> Ints:
    """A number for each collective that at least two members have with the same kind and size; else -1. Members that
    disagree with the majority about a collective get -1 there. ``numbered_rows`` has ``lane number kind``."""
    one = ("lane", "number")
    ranked = numbered_rows.group_by(*one, "kind").len().sort("len", "kind", descending=[True, False])
    usual = ranked.unique(one, keep="first", maintain_order=True).filter(pl.col("len") > 1)
    usual = usual.sort(one).with_row_index("instance")
    instance = numbered_rows.join(usual, on=[*one, "kind"], how="left", maintain_order="left")["instance"]
    agreed: Ints = instance.cast(pl.Int64).fill_null(_ALONE).to_numpy()
    return agreed


def _ranked(values: pl.Series) -> pl.Series:
    """The rank of each value among the distinct values, from 0."""
    return values.rank("dense").cast(pl.Int64) - 1


def _paired(first: pl.Series, second: pl.Series) -> pl.Series:
    """The rank, from 0, of each pair of non-negative numbers among the distinct pairs; faster than ranking structs."""
    most = cast(int | None, second.max()) or 0
    return _ranked(first * (most + 1) + second)
