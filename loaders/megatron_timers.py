"""Timers in the log of a Megatron-LM training: means per iteration, by rank or from the fastest to the slowest.

After the line of an iteration Megatron prints its timers, in ms per iteration, as ``--timing-log-option`` says:
``times across ranks (ms):`` with one line per timer and rank, ``(min, max) time across ranks (ms):`` or ``max time
across ranks (ms):`` with one line per timer (``megatron/core/timers.py``). How many iterations a value is the mean of
is the distance to the iteration printed before; of the first it is the commonest distance.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import pairwise
from statistics import median
from typing import Any

from .errors import Unreadable
from .loader import FormatLoader, Job
from .trace import Info, Trace

_BEGIN = re.compile(r"(?:(times)|\(min, max\) (time)|max (time)) across ranks \(ms\):")
_ITERATION = re.compile(r"\biteration\s+(\d+)\s*/\s*\d+\s*\|")
_ELAPSED = re.compile(r"elapsed time per iteration \(ms\):\s*([\d.]+)")
_TIMER = re.compile(r"^\s*([A-Za-z][\w .+-]*?):\s*$")
_RANK = re.compile(r"^\s*rank\s+(\d{1,7}):\s*(\S+)\s*$")
_VALUE = re.compile(r"^\s*([A-Za-z][\w +-]*?)[ .]*:\s*\(?(\S+?)(?:,\s*(\S+?))?\)?\s*$")
_PREFIX = re.compile(r"^(?:\[?(?:default|rank)?\d+\]?:|\d+:)\s?")
ITERATION = "iteration"
"""Name under which the elapsed time of iterations is listed."""


class MegatronTimers(FormatLoader):
    """Loader of such logs."""

    name = "megatron-timers"
    title = "Log of Megatron-LM with its timers: ranges by rank"
    suffixes = (".log", ".txt")
    version = 1
    fills = ("host_stats",)

    def sniff(self, head: bytes) -> bool:
        """Accept a text with the head of a block of timers."""
        return b"across ranks (ms):" in head and _BEGIN.search(head.decode("utf-8", "replace")) is not None

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``host_stats``, a row per timer and rank. Raises Unreadable if no timer is printed."""
        import polars as pl

        from . import schema
        from .ingest import stream
        from .recording.faults import Faults

        data, fault = stream.read_all(job.path)
        faults = Faults()
        iterations, values = _read(data.decode("utf-8", "replace"), faults)
        if not values:
            raise Unreadable(job.path, "is a log of Megatron-LM without a timer",
                             "Train with --timing-log-level 2 --timing-log-option all.")
        rows = _rows(iterations, values)
        job.progress(len(data), len(data), len(rows))
        ranks = tuple(sorted({row["rank"] for row in rows if row["rank"] is not None}))
        info = Info(str(job.path), job.path.stem, self.name, tool="Megatron-LM's timers", bytes=len(data), ranks=ranks,
                    warnings=tuple(faults.warnings()))
        kinds = {name: pl.String() if dtype == pl.Categorical() else dtype
                 for name, dtype in schema.polars_schema("host_stats").items()}
        frame = pl.DataFrame(rows, schema=kinds)
        trace = Trace(info, host_stats=schema.conform("host_stats", frame.lazy()))
        return (trace.warn(fault) if fault else trace,)


def _read(text: str, faults: Any) -> tuple[list[tuple[int, float | None]], dict[tuple[str, int | None], list[Any]]]:
    """(iteration, its elapsed ms), and per timer and rank the values as (number of the report, least ms, most ms)."""
    iterations: list[tuple[int, float | None]] = []
    values: dict[tuple[str, int | None], list[Any]] = defaultdict(list)
    by_rank, inside, timer = False, False, ""
    for line in text.splitlines():
        bare = _PREFIX.sub("", line.rstrip())
        if (found := _ITERATION.search(bare)) is not None:
            elapsed = _ELAPSED.search(bare)
            iterations.append((int(found[1]), _ms(elapsed[1], ITERATION, faults) if elapsed else None))
            inside = False
        elif (begin := _BEGIN.search(bare)) is not None:
            inside, by_rank, timer = True, begin[1] is not None, ""
        elif inside and by_rank and (one := _RANK.match(bare)) is not None and timer:
            value = _ms(one[2], timer, faults)
            values[timer, int(one[1])].append((len(iterations) - 1, value, value))
        elif inside and by_rank and (head := _TIMER.match(bare)) is not None:
            timer = head[1]
        elif inside and not by_rank and (pair := _VALUE.match(bare)) is not None:
            first = _ms(pair[2], pair[1], faults)
            last = first if pair[3] is None else _ms(pair[3], pair[1], faults)
            values[pair[1], None].append((len(iterations) - 1, first, last))
        elif bare.strip():
            inside = False
    return iterations, values


def _ms(text: str, column: str, faults: Any) -> float | None:
    from .recording.values import number

    value, reason = number(text)
    if reason:
        faults.wrong("timers", column, reason)
    return None if value is None else float(value)


def _rows(iterations: list[tuple[int, float | None]], values: dict[tuple[str, int | None], list[Any]]
          ) -> list[dict[str, Any]]:
    """Rows of ``host_stats``; the count is of iterations, null where the log does not tell how many a value covers."""
    distances = [after[0] - before[0] for before, after in pairwise(iterations)]
    usual = Counter(one for one in distances if one > 0).most_common(1)
    first = usual[0][0] if usual else None
    covered = [first, *(one if one > 0 else first for one in distances)] if iterations else []
    if elapsed := [(at, ms, ms) for at, (_, ms) in enumerate(iterations) if ms is not None]:
        values = {(ITERATION, None): elapsed, **values}
    rows = []
    for (timer, rank), reports in values.items():
        known = [one for one in reports if one[2] is not None]
        if not known:
            continue
        most = [one[2] * 1e6 for one in known]
        weights = [covered[at] if 0 <= at < len(covered) else None for at, _, _ in known]
        count = None if any(one is None for one in weights) else sum(one or 0 for one in weights)
        total = None if count is None else sum(ns * (weight or 0) for ns, weight in zip(most, weights, strict=True))
        rows.append({
            "name": timer, "kind": "annotation", "rank": rank, "count": count,
            "total_ns": None if total is None else round(total),
            "mean_ns": total / count if total is not None and count else None, "p50_ns": round(median(most)),
            "min_ns": round(min((one[1] * 1e6 for one in known if one[1] is not None), default=min(most))),
            "max_ns": round(max(most)),
        })
    return rows


LOADER = MegatronTimers()
