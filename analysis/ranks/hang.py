"""Who is missing: dumps of flight recorders say which rank did not begin a collective that the others wait in.

A *place* is a process group (or a pair of ranks with a message) in which some rank began a call that has not ended.
Its number is the first that has not ended; *waiting* are the members that began it, *missing* those that did not. A
place whose missing ranks wait in another place is a consequence of that one; if every place is, they wait in a ring.
Where all members are there, their calls are compared by name, size, type and order. A rank whose begins were never seen
on the device (timing is off by default) has begun what it called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core import units
from ..core.text import display

WRAP = 1 << 32
_AHEAD = 16  # Calls after the one that hangs in which another order is looked for.
_UNEQUAL = ("all_to_all", "alltoall", "gather", "scatter")
"""Collectives whose inputs may differ in size between ranks; all_gather and reduce_scatter are none of them."""
_EQUAL = ("all_gather", "allgather", "reduce_scatter")
CALL = ("name", "sizes", "dtype", "line", "start_ns", "record", "state")


class Stuck(Struct):
    """A group in which ranks wait at call ``seq``; for a message ``seq`` is its number in the pair."""

    group: str
    members: tuple[int, ...]
    seq: int
    waiting: tuple[int, ...]
    missing: tuple[int, ...]
    without_dump: tuple[int, ...]
    calls: dict[int, dict[str, Any]]  # of the waiting ranks and of all that called it, by rank
    message: str | None = None

    @property
    def since(self) -> tuple[int, int]:
        """When the first of the waiting ranks called it."""
        times = [one["start_ns"] for rank in self.waiting if (one := self.calls.get(rank)) and one["start_ns"]]
        return (min(times, default=1 << 62), self.seq)

    @property
    def call(self) -> dict[str, Any]:
        """What most of the waiting ranks called."""
        return _most([self.calls[rank] for rank in self.waiting if rank in self.calls])

    @property
    def what(self) -> str:
        """'all_reduce #41 of group dp', 'recv from rank 2 in group pp'."""
        name = display(self.call.get("name") or "a call")
        if self.message is not None:
            return f"{name} {self.message} in group {display(self.group)}"
        return f"{name} #{self.seq % WRAP} of group {display(self.group)}"


class Hang(Struct):
    """``facts`` as ``facts.hang``, the ``sentence``, one row per rank: ``rank state call line``, and notes."""

    facts: dict[str, Any] | None
    sentence: str
    rows: list[dict[str, Any]]
    notes: tuple[str, ...] = ()


def hang_of(run: Trace) -> Hang | None:
    """Where the ranks of a job hang; None if the run holds no flight recorder dumps."""
    if not run.has("enqueued"):
        return None
    return run.remember("hang", (), lambda: _hang(run))


def _hang(run: Trace) -> Hang:
    calls = run.enqueued.collect().with_columns(pl.col(pl.Categorical).cast(pl.String))
    members = pl.col("group_ranks").drop_nulls()
    only = pl.when(members.n_unique() == 1).then(members.first())  # old dumps name no members
    calls = calls.with_columns(pl.coalesce("group_ranks", only.over("process_group")))
    calls, strangers = _of_one_job(calls)
    there = sorted(calls["rank"].drop_nulls().unique().to_list())
    notes = () if not strangers else (
        f"{_ranks(strangers)} {'is' if len(strangers) == 1 else 'are'} of another job (other members of its groups): "
        "left out.",)
    places = [*_collectives(calls, there), *_by_status(calls, there), *_messages(calls, there)]
    absent = sorted({rank for place in places for rank in place.members} - set(there))
    if absent:
        notes = (*notes, f"{_ranks(absent)} {'has' if len(absent) == 1 else 'have'} no dump here.")
    by_time = sorted(places, key=lambda one: one.since)
    differing = next((one for place in by_time if (one := _mismatch(place, calls)) is not None), None)
    root, ring = _root(places)
    if differing is not None and (
            root is None or set(root.missing) <= set(root.without_dump) or differing[0].since <= root.since):
        place, kind, odd = differing
        facts = _facts(place, kind) | {"differs": list(odd), "missing": [], "no_dump": False,
                                       "waiting": sorted(place.calls)}
        return Hang(facts, _differs(place, kind, odd), _rows(calls, there, places, place, odd), notes)
    stuck = next((place for place in by_time if not place.missing), None)
    if root is None and stuck is not None:
        return Hang(_facts(stuck, None), f"{units.counted(len(stuck.waiting), 'rank waits', 'ranks wait')} in "
                    f"{stuck.what}, nobody is missing and their calls agree: look at the network and the devices.",
                    _rows(calls, there, places, None, ()), notes)
    if root is None:
        return Hang(None, "Nobody waits: every collective in the dumps has ended.",
                    _rows(calls, there, places, None, ()), notes)
    facts = _facts(root, None)
    if ring:
        facts["ring"] = [
            {"group": one.group, "waiting": list(one.waiting), "missing": list(one.missing)} for one in ring]
        text = "; ".join(f"{_ranks(one.waiting)} in {one.what} for {_ranks(one.missing, False)}" for one in ring)
        return Hang(facts, f"The ranks wait for one another in a ring: {text}.",
                    _rows(calls, there, places, root, ()), notes)
    return Hang(facts, _sentence(root, places), _rows(calls, there, places, root, ()), notes)


def _of_one_job(calls: pl.DataFrame) -> tuple[pl.DataFrame, list[int]]:
    """The calls without those of another job, and the ranks of that: they give a group other members than most do."""
    known = calls.drop_nulls(["group_ranks", "rank"]).select("rank", "process_group", "group_ranks").unique()
    strangers = set[int]()
    for _, rows in known.group_by("process_group", maintain_order=True):
        said = rows.group_by("group_ranks").agg("rank").sort(pl.col("rank").list.len(), "group_ranks", descending=True)
        most = set(said["group_ranks"][0].split(","))
        for text, ranks in said.rows():
            if (members := set(text.split(","))) != most and members & most:
                strangers |= set(ranks)
    return calls.filter(~pl.col("rank").is_in(list(strangers)) | pl.col("rank").is_null()), sorted(strangers)


def _unwrapped(calls: pl.DataFrame) -> pl.DataFrame:
    """Numbers that went on from 0 after 2^32, continued, in each rank and between the ranks of a group."""
    calls = calls.sort("rank", "process_group", "record", maintain_order=True)
    fell = (pl.col("seq").diff() < -(WRAP // 2)).fill_null(False).cast(pl.Int64).cum_sum()
    calls = calls.with_columns(seq=pl.col("seq") + WRAP * fell.over("rank", "process_group"))
    behind = pl.col("seq").max().over("process_group") - pl.col("seq").max().over("rank", "process_group") > WRAP // 2
    above = pl.col("seq").max().over("process_group") >= WRAP
    near = pl.col("seq").max().over("process_group") < WRAP
    return calls.with_columns(seq=pl.when(behind & (above | near) & (pl.col("seq") < WRAP // 2)).then(
        pl.col("seq") + WRAP).otherwise("seq"))


def _begun(calls: pl.DataFrame) -> pl.DataFrame:
    """With ``begun`` and ``ended``; where no begin of a rank was ever seen, what it called has begun."""
    timed = pl.col("timed").fill_null(False).any().over("rank")
    ended = (pl.col("state") == "completed").fill_null(False)
    return calls.with_columns(ended=ended, begun=ended | (pl.col("state") == "started").fill_null(False) | ~timed)


def _collectives(calls: pl.DataFrame, there: Sequence[int]) -> list[Stuck]:
    """The groups in which ranks wait in a collective."""
    status = calls.filter(pl.col("state") == "status")
    own = calls.filter(pl.col("name").is_not_null(), ~pl.col("message"), pl.col("seq").is_not_null())
    own = _begun(_unwrapped(own))
    places = []
    for (name, ranks), rows in own.group_by("process_group", "group_ranks", maintain_order=True):
        members = _members(ranks, rows)
        waits = rows.filter("begun", ~pl.col("ended"))
        if waits.is_empty():
            continue
        seq = min(waits["seq"].to_list())
        last = dict(rows.filter("begun").group_by("rank").agg(pl.col("seq").max()).rows())
        for rank, started in status.filter(pl.col("process_group") == name).select("rank", "last_started").rows():
            if started is not None and seq < WRAP:
                last[rank] = max(last.get(rank, -1), started)
        at = {row["rank"]: row for row in rows.filter(pl.col("seq") == seq).to_dicts()}
        waiting = tuple(sorted(rank for rank, row in at.items() if row["begun"] and not row["ended"]))
        missing = tuple(rank for rank in members if rank in there and last.get(rank, -1) < seq)
        without = tuple(rank for rank in members if rank not in there)
        begun = {rank: row for rank, row in at.items() if rank not in missing}
        places.append(Stuck(_named(rows, name, own), members, seq, waiting, missing or without, without, begun))
    return places


def _by_status(calls: pl.DataFrame, there: Sequence[int]) -> list[Stuck]:
    """The groups without a call in a dump: known is only which call each rank enqueued last, and which ended last."""
    seen = calls.filter(pl.col("name").is_not_null())["process_group"].unique().to_list()
    status = calls.filter(pl.col("state") == "status", pl.col("rank").is_not_null())
    status = status.filter(~pl.col("process_group").is_in(seen))
    places = []
    for (name, ranks), rows in status.group_by("process_group", "group_ranks", maintain_order=True):
        far = {rank: (enqueued, ended) for rank, enqueued, ended in rows.select(
            "rank", "last_scheduled", "last_completed").rows() if enqueued is not None and ended is not None}
        behind = [ended for enqueued, ended in far.values() if enqueued > ended]
        if not behind:
            continue
        furthest = max(ended for _, ended in far.values()) + 1  # what ended on one rank has begun on all
        seq = furthest if any(enqueued >= furthest for enqueued, _ in far.values()) else min(behind) + 1
        members = _members(ranks, rows)
        waiting = tuple(rank for rank, (enqueued, ended) in sorted(far.items()) if ended < seq <= enqueued)
        missing = tuple(rank for rank in members if rank in far and far[rank][0] < seq)
        without = tuple(rank for rank in members if rank not in there)
        places.append(Stuck(_named(rows, name, status), members, seq, waiting, missing or without, without, {}))
    return places


def _messages(calls: pl.DataFrame, there: Sequence[int]) -> list[Stuck]:
    """Pairs of ranks: one waits in a message that the other did not begin."""
    own = _begun(calls.filter(pl.col("message").fill_null(False), pl.col("src_rank").is_not_null())).sort(
        "rank", "record", maintain_order=True)
    places = []
    for (name, ranks, source, target), rows in own.group_by(
            "process_group", "group_ranks", "src_rank", "dst_rank", maintain_order=True):
        members = _members(ranks, rows)
        if not max(source, target) < len(members):
            continue
        ends = members[source], members[target]
        open_calls = {rank: rows.filter(pl.col("rank") == rank, "begun", ~pl.col("ended")) for rank in ends}
        for here, other, words in ((ends[1], ends[0], "from"), (ends[0], ends[1], "to")):
            waiting, answering = open_calls[here], open_calls[other]
            if waiting.height <= answering.height or here == other:
                continue
            first = waiting.row(answering.height, named=True)
            without = () if other in there else (other,)
            places.append(Stuck(
                _named(rows, name, own), members, int(first["seq"] or 0), (here,), (other,), without, {here: first},
                f"{words} rank {other}"))
    return places


def _members(ranks: str | None, rows: pl.DataFrame) -> tuple[int, ...]:
    return tuple(map(int, ranks.split(","))) if ranks else tuple(sorted(rows["rank"].drop_nulls().unique().to_list()))


def _named(rows: pl.DataFrame, name: str, every: pl.DataFrame) -> str:
    """What the program calls the group, with its members where several groups are called so."""
    called = rows["description"].drop_nulls()
    if called.is_empty():
        return name
    same = every.filter(pl.col("description") == called[0])["process_group"].n_unique()
    ranks = rows["group_ranks"].drop_nulls()
    return called[0] if same == 1 or ranks.is_empty() else f"{called[0]} ({_span(list(map(int, ranks[0].split(','))))})"


def _root(places: Sequence[Stuck]) -> tuple[Stuck | None, list[Stuck]]:
    """The place that explains the others, and the places of the ring if there is one."""
    held = [place for place in places if place.missing]
    waits = {rank: [one for one in places if rank in one.waiting] for place in held for rank in place.missing}

    def elsewhere(place: Stuck, rank: int) -> list[Stuck]:
        return [one for one in waits.get(rank, ()) if one is not place]

    for certain in (True, False):
        free = []
        for place in held:
            if certain and place.without_dump and set(place.missing) <= set(place.without_dump):
                continue
            idle = tuple(rank for rank in place.missing if not elsewhere(place, rank))
            if idle:
                free.append((len(idle) < len(place.missing), place.since, place, idle))
        if free:
            _, _, place, idle = min(free, key=lambda one: one[:2])
            place.missing = idle
            return place, []
    if not held:
        return None, []
    path, place = list[Stuck](), min(held, key=lambda one: one.since)
    while place not in path:
        path.append(place)
        if not place.missing:  # all are there, and none goes on: what holds the others is in this call
            return None, []
        place = elsewhere(place, place.missing[0])[0]
    ring = path[path.index(place):]
    return ring[0], ring


def _mismatch(place: Stuck, calls: pl.DataFrame) -> tuple[Stuck, str, tuple[int, ...]] | None:
    """The place, in what the calls of its ranks differ (name, size, dtype, order), and the ranks that differ."""
    if place.message is not None or len(place.calls) < 2:
        return None
    keys = {rank: (row["name"], row["sizes"], row["dtype"]) for rank, row in place.calls.items()}
    names = {key[0] or "" for key in keys.values()}
    if len(names) == 1 and any(word in next(iter(names)).lower() for word in _UNEQUAL) and not any(
            word in next(iter(names)).lower() for word in _EQUAL):
        keys = {rank: (key[0], None, key[2]) for rank, key in keys.items()}
    counted = Counter(keys.values())
    if len(counted) < 2:
        return None
    usual = max(counted, key=lambda key: (counted[key], -min(rank for rank, one in keys.items() if one == key)))
    odd = tuple(sorted(rank for rank, key in keys.items() if key != usual))
    other = keys[odd[0]]
    kind = next(word for at, word in enumerate(("name", "size", "dtype")) if other[at] != usual[at])
    following = _unwrapped(calls.filter(
        pl.col("rank").is_in(list(keys)), ~pl.col("message").fill_null(True), pl.col("seq").is_not_null(),
        pl.col("process_group").is_in([row["process_group"] for row in place.calls.values()]),
    )).filter(pl.col("seq").is_between(place.seq + 1, place.seq + _AHEAD))
    later: dict[int, list[tuple[str | None, str | None, str | None]]] = {rank: [] for rank in keys}
    for row in following.select("rank", "name", "sizes", "dtype").rows():
        later[row[0]].append(row[1:])
    regular = [key for rank in keys if rank not in odd for key in later[rank]]
    if (other in regular and (usual in later[odd[0]] or not later[odd[0]])) or (usual in later[odd[0]] and not regular):
        kind = "order"
    return place, kind, odd


def _facts(place: Stuck, mismatch: str | None) -> dict[str, Any]:
    call = place.call or _most(list(place.calls.values()))
    return {
        "group": place.group, "seq": place.seq % WRAP, "name": call.get("name"), "missing": list(place.missing),
        "waiting": list(place.waiting), "mismatch": mismatch, "frame": call.get("line"),
        "no_dump": bool(place.missing) and set(place.missing) <= set(place.without_dump), "ring": None, "differs": [],
    }


def _sentence(place: Stuck, places: Sequence[Stuck]) -> str:
    line = place.call.get("line")
    where = f" ({display(line)})" if line else ""
    waits = units.counted(len(place.waiting), "rank waits", "ranks wait")
    missing = _ranks(place.missing)
    verb = "is" if len(place.missing) == 1 else "are"
    if set(place.missing) <= set(place.without_dump):
        lacking = "has no dump: it" if len(place.missing) == 1 else "have no dumps: they"
        return f"{missing} {lacking} may be missing at {place.what}; {waits}{where}."
    text = f"{missing} {verb} missing at {place.what}; {waits}{where}."
    behind = sorted({rank for one in places if one is not place for rank in one.waiting} - set(place.waiting))
    if behind:
        text += f" {_ranks(behind)} {'waits' if len(behind) == 1 else 'wait'} behind, in other groups."
    return text


def _differs(place: Stuck, kind: str, odd: Sequence[int]) -> str:
    usual = _most([row for rank, row in place.calls.items() if rank not in odd])
    other = place.calls[odd[0]]
    words = {"name": "as another collective", "size": "with another size", "dtype": "with another type",
             "order": "in another order"}
    column = {"name": "name", "size": "sizes", "dtype": "dtype", "order": "name"}[kind]
    if kind == "order" and usual["name"] == other["name"]:
        column = "sizes"
    theirs, own = (display(str(row[column]), 40) for row in (other, usual))
    verb = "calls" if len(odd) == 1 else "call"
    line = f" ({display(other['line'])})" if other.get("line") else ""
    return (f"{_ranks(odd)} {verb} #{place.seq % WRAP} of group {display(place.group)} {words[kind]}: {theirs}{line} "
            f"instead of {own}; {units.counted(len(place.calls), 'rank waits', 'ranks wait')}.")


def _rows(calls: pl.DataFrame, there: Sequence[int], places: Sequence[Stuck], root: Stuck | None,
          odd: Sequence[int]) -> list[dict[str, Any]]:
    """One row per rank of the job, those to look at first."""
    last = {row["rank"]: row for row in calls.filter(pl.col("name").is_not_null()).sort("record").unique(
        "rank", keep="last", maintain_order=True).to_dicts()}
    every = sorted({*there, *(rank for place in places for rank in place.members)})
    rows = []
    for rank in every:
        waits = sorted((one for one in places if rank in one.waiting), key=lambda one: one.since)
        row = last.get(rank)
        call = None if row is None else f"{display(row['name'])} #{row['seq']} of group {display(_called(row))}"
        line, state = (row or {}).get("line"), "ended"
        if rank in odd:
            state = "differs"
        elif root is not None and rank in root.missing:
            state = "no dump" if rank not in there else "missing"
        elif rank not in there:
            state = "no dump"
        elif waits:
            state, call, line = "waits", waits[0].what, waits[0].calls.get(rank, {}).get("line")
        rows.append({"rank": rank, "state": state, "call": call, "line": line})
    order = {"missing": 0, "differs": 0, "no dump": 1, "waits": 2, "ended": 3}
    return sorted(rows, key=lambda one: (order[one["state"]], one["rank"]))


def last_calls(run: Trace, rank: int | None, most: int = 20) -> pl.DataFrame:
    """The last calls of a rank, newest first: ``group seq name state line``."""
    own = run.enqueued.filter(pl.col("rank").eq_missing(rank), pl.col("name").is_not_null()).sort(
        "record", descending=True).head(most).collect()
    group = pl.coalesce(pl.col("description", "process_group").cast(pl.String)).alias("group")
    return own.select(group, pl.col("seq", "name", "state", "line").cast(pl.String))


def _called(row: dict[str, Any]) -> str:
    return str(row["description"] or row["process_group"])


def _most(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The row that occurs most often by name, size, type and line; of equal ones the first."""
    if not rows:
        return {}
    keys = [tuple(row[name] for name in ("name", "sizes", "dtype", "line")) for row in rows]
    return rows[keys.index(Counter(keys).most_common(1)[0][0])]


def _ranks(ranks: Sequence[int], capital: bool = True) -> str:
    """'Rank 3', 'Ranks 3 and 5', 'Ranks 0–6'."""
    return f"{'R' if capital else 'r'}ank{'s' if len(ranks) != 1 else ''} {_span(ranks)}"


def _span(ranks: Sequence[int]) -> str:
    """Numbers with runs drawn together: '0–2, 5'."""
    values = np.array(sorted(ranks))
    runs = np.split(values, np.flatnonzero(np.diff(values) != 1) + 1)
    parts = [part for run in runs for part in (
        [f"{run[0]}–{run[-1]}"] if run.size > 2 else [str(one) for one in run])]
    if len(parts) > 8:
        return f"{', '.join(parts[:6])} and {len(parts) - 6} more runs of ranks"
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
