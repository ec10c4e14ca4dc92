"""The arrivals at each collective, on one clock: how long each member waited, the transfer time, who was last.

A member waits from its own arrival to the last one's, but never longer than its own activity ran. The transfer is the
shortest of the durations: that of the member which waited for nobody.

Activities are matched to one collective by process group and sequence number, where recorded; else by recorded step and
place in it, where members have equally many in that step; else by their order, where members have equally many at all.
Only where all that is lacking a member is shifted to where kinds and sizes agree. An activity that disagrees in kind,
or in size where all must be equal, stays unmatched and is counted. Sends and receives are no collectives: those with a
source and a target are the ends of messages (``messages``), and they never match by order.

A member's clock offset is the median of the differences between its ends and those of the others, its residual half the
spread between their 16th and 84th percentile. It is used with at least ``LEAST`` collectives, a residual below the
median transfer, and, if only their order matches them, less than half a step from the recorded clocks. Else the
recorded clock stands, if all members recorded one clock; if not the offset is unknown, and with it every wait. Members
that share no collective, even indirectly, have clocks that only a recorded clock brings together.

Matched activities are one collective only if they overlap on the common clock. Order alone also matches activities that
never met: the recording of one rank may begin at another collective than that of the next, or two files of one folder
may belong to different jobs. Waits would then be longer than anything recorded.
"""

from __future__ import annotations

from functools import cached_property
from typing import cast

import numpy as np
import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from ...loaders.trace import OPERATIONS, REDUCED, Trace
from ..core import units
from .collectives import ENDS_TOGETHER, Collectives, Member, collectives_of
from .matching import ORDER, SEQ, MatchedCollectives, Messages, matched, messages_of, with_messages


def overlapping(frame: pl.DataFrame, clocks: Clocks) -> pl.DataFrame:
    """The activities (``instance member start_ns end_ns dur_ns``), with ``instance`` null for those that overlap no
    other. A collective keeps those that ran at the moment when most of its members ran, within the clocks' residual."""
    rows = frame.select("instance", "member", "start_ns", "end_ns", "dur_ns").with_row_index("row")
    rows = rows.drop_nulls("instance")
    if rows.is_empty():
        return frame
    rows = rows.with_columns(**_moments_of(clocks))
    apart = rows.filter(pl.col("come").max().over("instance") > pl.col("leave").min().over("instance"))
    met = rows.join(_moments(apart), on="instance", how="left").filter(
        pl.col("moment").is_null() | pl.col("moment").is_between("come", "leave")
    ).filter(pl.len().over("instance") > 1)
    stays = np.zeros(frame.height, dtype=bool)
    stays[met["row"].to_numpy()] = True
    return frame.with_columns(instance=pl.when(pl.Series(stays)).then("instance"))


def _moments_of(clocks: Clocks) -> dict[str, pl.Expr]:
    """``come`` and ``leave`` of activities on the common clock, as far apart as the residual of their clock allows."""
    own = pl.lit(pl.Series(clocks.offset)).gather(pl.col("member"))
    doubt = pl.lit(pl.Series(np.nan_to_num(clocks.residual))).gather(pl.col("member"))
    return {"come": pl.col("start_ns") - own - doubt, "leave": pl.col("end_ns") - own + doubt}


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
    def sentence(self) -> str | None:
        """Which clocks cannot be brought together; None where all can."""
        first = self.clocks.on_first
        unknown = [one for one, offset in zip(self.members, first, strict=True) if np.isnan(offset)]
        if not unknown:
            return None
        to = next(one.text for one, offset in zip(self.members, first, strict=True) if offset == 0)
        who = list(dict.fromkeys(one.text for one in unknown))
        named = ", ".join(who[:_NAMED]) + (f" and {len(who) - _NAMED} more" if len(who) > _NAMED else "")
        return f"The clocks of {named} and {to} cannot be brought together: no wait between them is known."

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats about the matching and the clocks."""
        lines = []
        if len(self.members) > 1 and self.messages.unlabelled:
            some = units.counted(self.messages.unlabelled, "SendRecv kernel", "SendRecv kernels")
            lines.append(f"{some} without source and target: not paired.")
        if (apart := self.sentence) is not None:
            lines.append(apart)
        elif len(self.members) > 1 and not self.count and not self.paired:
            lines.append("No collective could be matched between ranks: waits are unknown and clocks are as recorded.")
        if self.matching.unmatched and self.matching.how:
            lines.append(f"{self.matching.unmatched:,} of {self.frame.height:,} collectives have no counterpart on "
                         "another rank: their waits are unknown.")
        if self.apart:
            lines.append(
                f"{self.apart:,} collectives are unmatched: they never overlapped with the one of the same number.")
        return tuple(lines)


def arrivals_of(run: Trace) -> Arrivals:
    """The arrivals at every collective of the run, cached."""
    return run.remember("arrivals", (), lambda: _arrivals(
        collectives_of(run), OPERATIONS in run.info.facts, recorded_clock(run), _step_ns(run)))


def recorded_clock(run: Trace) -> bool:
    """Whether all ranks recorded their times on one clock: the wall clock, that of one file or of one machine."""
    several = "files" in run.info.facts or (run.info.facts.get(REDUCED) or {}).get("recordings", 1) > 1
    return run.info.epoch_ns is not None or not several


def _step_ns(run: Trace) -> float | None:
    """The median length of the recorded steps, ns; None without any."""
    length = run.cycles.filter(pl.col("source") == "recorded").select(pl.col("dur_ns").median())
    return cast(float | None, length.collect(engine="streaming").item())


def _arrivals(
    collectives: Collectives, one_clock: bool = False, recorded: bool = False, step_ns: float | None = None
) -> Arrivals:
    count = len(collectives.members)
    messages = messages_of(collectives)
    collectives = replace(collectives, frame=with_messages(collectives.frame, messages))
    pairs = matched(collectives, recorded, step_ns)
    clocks = clocks_of(pairs.frame, count, recorded)
    comparable = _comparable(pairs.frame, clocks)
    met = overlapping(comparable, clocks)
    apart = met["instance"].null_count() - comparable["instance"].null_count()
    if apart:
        clocks = clocks_of(met, count, recorded)
        met = _comparable(met, clocks)
    if messages.frame.height:  # two ranks that no collective links have the clock of their messages
        frame = _with_messages_between(met, clocks)
        if frame["instance"].null_count() < met["instance"].null_count():
            clocks = clocks_of(frame, count, recorded)
        every = met.with_columns(instance=pl.coalesce("instance", pl.col("message") + _first_free(met)))
        met = _overlapping_ends(_comparable(every, clocks), clocks)
    pairs = replace(pairs, frame=met, unmatched=pairs.unmatched + apart)
    if one_clock:
        zeros = np.zeros(count)
        clocks = Clocks(zeros, np.full(count, np.nan), zeros.astype(np.int64), clocks.evidence, recorded)
    one = pl.col("instance").is_not_null()
    own = pl.lit(pl.Series(clocks.offset, dtype=pl.Float64)).gather(pl.col("member")) if count else pl.lit(0.0)
    last, second = pl.col("arrival_ns").max(), pl.col("arrival_ns").top_k(2).min()
    frame = met.with_columns(arrival_ns=pl.when(one).then(pl.col("start_ns") - own)).with_columns(
        behind=pl.when(one).then(last.over("instance") - pl.col("arrival_ns")),
        lead_ns=pl.when(one).then((last - second).over("instance")),
        parties=pl.when(one).then(pl.len().over("instance")),
        transfer_ns=pl.when(one).then(pl.col("dur_ns").min().over("instance")),
    ).with_columns(
        wait_ns=pl.when(one).then(pl.min_horizontal("behind", "dur_ns")).round().cast(pl.Int64),
        last=(pl.col("behind") == 0) & (pl.col("lead_ns") > 0),
    ).with_columns(caused_ns=pl.when("last").then(pl.col("wait_ns").sum().over("instance"))).drop("behind")
    return Arrivals(frame, collectives.members, clocks, pairs, apart, messages)


def _comparable(frame: pl.DataFrame, clocks: Clocks) -> pl.DataFrame:
    """The activities, with ``instance`` null where a clock is unknown, and where those of its members are unrelated."""
    if clocks.recorded or frame.is_empty():
        return frame
    own = pl.when(pl.col("instance").is_not_null()).then(pl.lit(pl.Series(clocks.sets)).gather(pl.col("member")))
    one = frame.with_columns(instance=pl.when(own >= 0).then("instance"), own=own)
    related = (pl.col("own").n_unique().over("instance") == 1) & (pl.len().over("instance") > 1)
    return one.with_columns(instance=pl.when(related).then("instance")).drop("own")


def _first_free(frame: pl.DataFrame) -> int:
    return int(frame["instance"].max() or 0) + 1  # type: ignore[arg-type]


def _with_messages_between(frame: pl.DataFrame, clocks: Clocks) -> pl.DataFrame:
    """The activities, with messages between members that no collective links as collectives of two."""
    own = pl.lit(pl.Series(clocks.sets)).gather(pl.col("member"))
    rows = frame.with_columns(own=own)
    linked = (pl.col("own").min() >= 0) & (pl.col("own").n_unique() == 1)
    number = pl.when(~linked.over("message")).then(pl.col("message") + _first_free(frame))
    return rows.with_columns(
        instance=pl.coalesce("instance", number),
        how=pl.coalesce("how", pl.when(number.is_not_null()).then(
            pl.when("certain").then(pl.lit(SEQ)).otherwise(pl.lit(ORDER)))),
    ).drop("own")


def _overlapping_ends(frame: pl.DataFrame, clocks: Clocks) -> pl.DataFrame:
    """The activities, with ``instance`` null for the ends of messages that only order pairs and that never overlapped
    on the common clock."""
    apart = pl.col("message").is_not_null() & ~pl.col("certain") & (
        pl.col("come").max().over("message") > pl.col("leave").min().over("message"))
    rows = frame.with_columns(**_moments_of(clocks))
    return rows.with_columns(instance=pl.when(~apart.fill_null(False)).then("instance")).drop("come", "leave")


Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
LEAST = 3  # Collectives needed for a clock; fewer agree by construction.
RECORDED = "recorded"
"""How a clock is known that no collective measures."""
_ROUNDS = 2
_SPREAD = (16, 84)  # Percentiles: half of what lies between them is the standard deviation of a normal distribution.
_NAMED = 4


class Clocks(Struct, frozen=True):
    """Per member, in ns: how far its clock is ahead of the first one's of its set (``offset``, NaN where unknown), and
    half the spread of the measurements (``residual``, NaN where none is used). ``sets``: the number, from 0, of the set
    of members that collectives connect it with; -1 for none. ``evidence``: ``SEQ``, ``STEP``, ``ORDER`` or None.
    ``recorded``: whether recorded times of all members are on one clock, which stands where nothing is measured."""

    offset: Floats
    residual: Floats
    sets: Ints
    evidence: tuple[str | None, ...]
    recorded: bool

    @property
    def on_first(self) -> Floats:
        """How far each clock is ahead of that of the first set, ns; NaN where unknown."""
        return self.offset if self.recorded else np.where(self.sets == 0, self.offset, np.nan)

    @property
    def doubt(self) -> Floats:
        """The residual to the clock of the first set, ns; NaN where only recorded clocks relate them."""
        return np.where(self.sets == 0, self.residual, np.nan)

    def evidence_of(self, member: int) -> str | None:
        """How the offset of a member from the first one is known."""
        if self.sets[member] == 0:
            return self.evidence[member]
        return RECORDED if self.recorded else None


def clocks_of(frame: pl.DataFrame, members: int, recorded: bool) -> Clocks:
    """The clocks of this number of members from their matched collectives (``instance member end_ns dur_ns kind how
    period_ns``)."""
    rows = frame.drop_nulls("instance").filter(pl.col("kind").is_in(ENDS_TOGETHER)).select(
        "instance", "member", "how", "period_ns", end=(pl.col("end_ns") - pl.col("end_ns").min()).cast(pl.Float64),
        transfer=pl.col("dur_ns").min().over("instance"))
    residual, evidence = np.full(members, np.nan), list[str | None]([None] * members)
    while True:
        rows = rows.filter(pl.len().over("instance") > 1)
        offset, sets = _joined(rows, members)
        each = _apart(rows, offset).group_by("member").agg(
            pl.len(), pl.col("transfer").median(), pl.col("period_ns").median(), how=pl.col("how").mode().sort().last(),
            left=(pl.col("apart").quantile(_SPREAD[1] / 100, "linear") - pl.col("apart").quantile(
                _SPREAD[0] / 100, "linear")) / 2, offset=pl.col("apart").median())
        few = each.filter(pl.col("len") < LEAST)
        if recorded and few.is_empty():  # order alone may be off by a step
            few = each.filter(pl.col("how") == ORDER, 2 * pl.col("offset").abs() > pl.col("period_ns"))
        if few.is_empty():  # the worst first: it spoils the others
            few = each.filter(pl.col("left") > pl.col("transfer"), 4 * pl.col("left") >= 3 * pl.col("left").max())
        if few.is_empty():
            break
        rows = rows.filter(~pl.col("member").is_in(few["member"].implode()))
    for member, left, how in each.select("member", "left", "how").rows():
        residual[member], evidence[member] = left, how
    if recorded:
        offset = np.nan_to_num(offset)
    elif members and (sets < 0).all():  # the first one is on its own clock
        offset[0], sets[0] = 0.0, 0
    return Clocks(offset, residual, sets, tuple(evidence), recorded)


def _joined(rows: pl.DataFrame, members: int) -> tuple[Floats, Ints]:
    """Offsets and sets of all members."""
    offset, sets = np.full(members, np.nan), np.full(members, -1, dtype=np.int64)
    firsts: list[int] = []
    for number in range(members):
        left = rows.filter(pl.col("member").is_in(np.flatnonzero(sets < 0).tolist()))
        if left.is_empty():
            break
        firsts.append(int(left["member"].to_numpy().min()))
        offset[firsts[-1]], sets[firsts[-1]] = 0.0, number
        _spread(rows, offset, sets, number)
    some = np.flatnonzero(sets >= 0)
    for _ in range(_ROUNDS):
        medians = _apart(rows, offset).group_by("member").agg(pl.col("apart").median())
        offset[medians["member"].to_numpy()] = medians["apart"].to_numpy()
        offset[some] -= offset[np.array(firsts, dtype=np.int64)][sets[some]]
    return offset, sets


def _apart(rows: pl.DataFrame, offset: Floats) -> pl.DataFrame:
    """The rows with ``apart``: the end on the member's own clock minus the median of the others' on the common one."""
    own = pl.lit(pl.Series(offset)).gather(pl.col("member"))
    ends = rows.with_columns(at=pl.col("end") - own).sort("instance", "at")
    place, others = pl.int_range(pl.len()).over("instance"), pl.len().over("instance").cast(pl.Int64) - 1
    first = pl.int_range(pl.len()) - place
    low, high = (others - 1) // 2, others // 2
    middle = [pl.col("at").gather(first + at + (place <= at)) for at in (low, high)]
    return ends.with_columns(apart=pl.col("end") - (middle[0] + middle[1]) / 2)


def _spread(rows: pl.DataFrame, offset: Floats, sets: Ints, number: int) -> None:
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
