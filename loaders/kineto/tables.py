"""Raw event columns → the tables of a Trace; kinds, devices, streams and names are determined only here.

Blocks arrive in file order. The meaning of a text (kind of a category, categorical code of a name, number of a thread
id) is computed once per distinct text and looked up for every row. Finished rows wait in memory and are spilled to the
workspace as they accumulate, so memory is bounded whatever the file size; times count from the earliest event. Until
rows are spilled only numpy is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from ..ingest import limits
from ..native.processor import threads
from ..recording.faults import OUT_OF_RANGE, Faults, timeless_calls, timeless_launches
from . import dialect
from .allocations import Allocations
from .chunk import Basis, Chunk, Column, chunk, floats_of, marked_times, merged
from .columns import CODES, INTS, NULL, Block, Codes, Ints, Strings
from .dialect import KIND, LOADING, STEP, InternedTexts
from .scan.layout import DEVICE, HOST, UNKNOWN
from .spool import Spool

if TYPE_CHECKING:
    import polars as pl

    from ..trace import HeldRows

_WRITERS = 2, 4
"""Minimum and maximum number of writing threads: the last and largest files are written after scanning."""
_MOST_PRINTS = 250_000
_PRIMES = [np.int64(value) for value in (
    0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9, 0x14D049BB133111EB, 0x2545F4914F6CDD1D, 0x27D4EB2F165667C5,
    0x165667B19E3779F9, 0x1B873593CC9E2D51)]
_DEVICE_END, _RANGE = len(dialect.DEVICE_KINDS), KIND[dialect.RANGE]
_INT = {name: row for row, name in enumerate(INTS)}
_CODE = {name: row for row, name in enumerate(CODES)}


NAMELESS = "slices without a category"
Cycle = tuple[int, int, int, str, int | None]  # A recorded step: its number, start and duration in ns, label and rank.


class SortedRows(Struct):
    """A block as rows of tables. ``ranges`` are (offset, end) of profiler ranges in the block, whose arguments become
    metrics; ``cycles``, ``launchers`` and ``sequenced`` as in ``Tables``; ``categories``: events by category."""

    kernels: Chunk | None = None
    host: Chunk | None = None
    ranges: list[tuple[int, int]] = field(default_factory=list)
    cycles: list[Cycle] = field(default_factory=list)
    launchers: set[tuple[int, int]] = field(default_factory=set)
    sequenced: bool = False
    earliest: int | None = None
    timeless: dict[str, Chunk] = field(default_factory=dict)
    wrong: Counter[tuple[str, str]] = field(default_factory=Counter)
    untimed: int = 0
    ignored: int = 0
    categories: list[Ints] = field(default_factory=list)
    prints: dict[str, Ints] = field(default_factory=dict)


class Tables:
    """Collects blocks and samples; ``finish`` returns the tables. ``rows_of`` may be called from any thread, everything
    else only in file order. ``launchers`` are the (rank, pid) that made runtime calls, ``cycles`` tuples of (number,
    start, duration, label, rank); ``sequenced``: some operator has a sequence number. ``faults`` counts times that are
    none; device activities and named host events without a start are kept in ``timeless``, others are ``untimed``."""

    def __init__(self, strings: Strings, workspace: Path, early: bool = True, source: str = "traceEvents") -> None:
        self.source = source
        self.strings, self.texts = strings, InternedTexts(strings)
        self._writer = writer = ThreadPoolExecutor(threads(*_WRITERS))
        self.spools = {
            table: Spool(table, workspace, self.texts, writer, early) for table in ("kernels", "host", "metrics")
        }
        self.allocations = Allocations()
        self.cycles: list[Cycle] = []
        self.earliest: int | None = None
        self.faults = Faults()
        self.timeless: dict[str, list[Chunk]] = {"kernels": [], "host": []}
        self.untimed = 0
        self.ignored = 0
        self.launchers: set[tuple[int, int]] = set()
        self.sequenced = False
        self.rank: int | None = None
        self._prints: dict[str, list[Ints]] = {"kernels": [], "host": []}
        self._categories = np.zeros(0, np.int64)

    def places(self, categories: Codes) -> npt.NDArray[np.uint8]:
        """Route of each category: DEVICE, HOST or UNKNOWN."""
        kind = self.texts.kind[categories]
        return np.select([kind < _DEVICE_END, kind < _RANGE], [DEVICE, HOST], UNKNOWN).astype(np.uint8)

    def rows_of(
        self, block: Block, device: Block | None = None, host: Block | None = None, *, as_recorded: bool = True
    ) -> SortedRows:
        """The rows of a block and of two optional blocks with only device or only host events, copied and in file
        order. Durations in the blocks may be modified. ``as_recorded``: their categories are the file's own."""
        rows = SortedRows()
        if as_recorded:
            rows.categories = [counts_of(one) for one in (block, device, host) if one is not None and one.rows]
        bare: dict[str, list[Block]] = {"kernels": [], "host": []}
        block = self._placed(block, rows, bare)
        devices, hosts = self._sorted_out(block, rows) if block.rows else (None, None)
        rows.kernels = self._chunk("kernels", (device, devices), self._kernels, rows, bare)
        rows.host = self._chunk("host", (host, hosts), self._host, rows, bare)
        for table, columns in (("kernels", self._kernels), ("host", self._host)):
            if bare[table]:
                rows.timeless[table] = chunk(merged([columns(each, rows) for each in bare[table]]))
        return rows

    def _chunk(
        self, table: str, blocks: Sequence[Block | None], columns: Callable[[Block, SortedRows], dict[str, Column]],
        rows: SortedRows, bare: dict[str, list[Block]],
    ) -> Chunk | None:
        """The rows of one table from all blocks."""
        placed = [self._placed(block, rows, bare) for block in blocks if block is not None]
        chunks = [columns(block, rows) for block in placed if block.rows]
        for each in chunks:
            start = int(each["start_ns"].min())
            rows.earliest = start if rows.earliest is None else min(rows.earliest, start)
        if not chunks:
            return None
        columns_by_name = merged(chunks)
        if self._prints_more(table):
            rows.prints[table] = _prints(columns_by_name)
        return chunk(columns_by_name)

    def _sorted_out(self, block: Block, rows: SortedRows) -> tuple[Block, Block]:
        """The device events and the host events of a block; others are counted, profiler ranges recorded."""
        ints, kind = block.ints, self.texts.kind[block.texts("cat")]
        device = np.flatnonzero(kind < _DEVICE_END)
        host = np.flatnonzero((kind >= _DEVICE_END) & (kind < _RANGE))
        ranges = np.flatnonzero(kind == _RANGE)
        rows.ignored = block.rows - len(device) - len(host) - len(ranges)
        spans = zip(ints[_INT["offset"], ranges].tolist(), ints[_INT["end"], ranges].tolist(), strict=True)
        rows.ranges = list(spans)
        return block.take(device), block.take(host)

    def _placed(self, block: Block, rows: SortedRows, bare: dict[str, list[Block]]) -> Block:
        """The events of a block that have a start. Times that are none are counted and become NULL; those of the tables
        kernels and host without a start are added to ``bare``, other events without one are untimed."""
        if not block.rows:
            return block
        ts, dur = block.ints[_INT["ts"]], block.ints[_INT["dur"]]
        timeless = marked_times(ts, dur, rows.wrong)
        if timeless is None and int(ts.min()) > 0:
            return block
        kind = self.texts.kind[block.texts("cat")]
        device = kind < _DEVICE_END
        if int(ts.max()) > 0:  # a record that the profiler left blank
            blank = (ts == 0) & (dur == 0) & device
            timeless = blank if timeless is None else blank | timeless
        if timeless is None or not timeless.any():
            return block
        host = timeless & ~device & (kind < _RANGE) & (block.texts("name") >= 0)
        rows.untimed += int(np.count_nonzero(timeless & ~device & ~host))
        for table, some in (("kernels", timeless & device), ("host", host)):
            if some.any():
                without = block.take(np.flatnonzero(some))
                without.ints[_INT["ts"]], without.ints[_INT["dur"]] = 0, NULL
                bare[table].append(without)
        return block.take(np.flatnonzero(~timeless))

    def time_warnings(self) -> list[str]:
        """Sentences about times that are none, and about launches and calls without one."""
        more = []
        for table, say in (("kernels", timeless_launches), ("host", timeless_calls)):
            if count := sum(each.rows for each in self.timeless[table]):
                more.append(say(count, count + self.spools[table].rows))
        return [*self.faults.warnings(), *more]

    def add(self, rows: SortedRows) -> None:
        """Append the rows of the next block."""
        self.cycles += rows.cycles
        self.launchers |= rows.launchers
        self.sequenced |= rows.sequenced
        for (column, reason), count in rows.wrong.items():
            self.faults.wrong(self.source, column, reason, count)
        for table, bare in rows.timeless.items():
            self.timeless[table].append(bare)
        self.untimed += rows.untimed
        self.ignored += rows.ignored
        for counts in rows.categories:
            self.count(counts)
        self.begin(rows.earliest)
        for table, prints in rows.prints.items():
            if self._prints_more(table):
                self._prints[table].append(prints)
        for table, new_chunk in (("kernels", rows.kernels), ("host", rows.host)):
            if new_chunk is not None:
                self._put(table, new_chunk)

    def count(self, counts: Ints) -> None:
        """Add numbers of events by the code of their category."""
        if len(counts) > len(self._categories):
            self._categories = np.concatenate([self._categories, np.zeros(2 * len(counts), np.int64)])
        self._categories[: len(counts)] += counts

    def read_categories(self) -> list[tuple[str, int, bool]]:
        """(category, events, whether they are in a table) of every category of slices but the recorder's own span."""
        codes = np.flatnonzero(self._categories)
        codes = codes[[self.strings.texts[code].lower() != dialect.OWN for code in codes.tolist()]]
        read = self.texts.kind[codes.astype(np.int32)] != KIND[dialect.IGNORED]
        texts = [self.strings.texts[code] or NAMELESS for code in codes.tolist()]
        return list(zip(texts, self._categories[codes].tolist(), read.tolist(), strict=True))

    def _prints_more(self, table: str) -> bool:
        return table == "kernels" or self.spools[table].rows < _MOST_PRINTS

    def may_repeat(self, table: str) -> bool:
        """Whether two rows of the table could be one event recorded twice; of a long host table, among its first."""
        parts = self._prints[table]
        prints = np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
        return bool((prints[1:] == prints[:-1]).any())

    def _put(self, table: str, rows: Chunk) -> None:
        spool = self.spools[table]
        spool.add(rows)
        limits.check("ranks", len(spool.ranks), f"holds more than {limits.limit('ranks'):,} ranks")
        limits.check("devices", len(spool.devices), f"holds more than {limits.limit('devices'):,} devices")
        if spool.full:
            spool.spill(self._basis(table))

    def begin(self, start: int | None) -> None:
        """Update ``earliest`` with an absolute start time."""
        if start is not None:
            self.earliest = start if self.earliest is None else min(self.earliest, start)

    def _kernels(self, block: Block, out: SortedRows) -> dict[str, Column]:
        ints = block.ints
        kind = self.texts.kind[block.texts("cat")]
        kind[(kind == KIND["kernel"]) & self.texts.collective[block.texts("name")]] = KIND["collective"]
        stream = np.where(ints[_INT["stream"]] != NULL, ints[_INT["stream"]], self._thread(block, "tid"))
        lane = self._thread(block, "pid")
        device = np.where(ints[_INT["device"]] != NULL, ints[_INT["device"]], lane)
        graph, node = ints[_INT["graph"]], ints[_INT["graph_node"]]
        graph = np.where((graph == NULL) | (graph == 0), np.where(node > 0, node >> 32, 0), graph)
        size = _sizes(ints[_INT["bytes"]], out.wrong)
        return {
            "start_ns": ints[_INT["ts"]], "dur_ns": ints[_INT["dur"]], "name": block.texts("name"), "kind": kind,
            "device": device, "stream": stream, "lane": np.where(lane != device, lane, NULL), "rank": self._rank(block),
            "correlation": ints[_INT["correlation"]], "op_id": ints[_INT["external_id"]],
            "graph": np.where(graph == 0, NULL, graph), "grid": block.texts("grid"), "block": block.texts("block"),
            "registers": ints[_INT["registers"]], "shared_bytes": ints[_INT["shared"]], **floats_of(block.floats),
            "bytes": size,
            **{name: block.texts(name) for name in ("collective", "process_group", "group_ranks", "dtype")},
            **{name: ints[_INT[name]] for name in (
                "group_size", "in_elements", "out_elements", "seq", "src_rank", "dst_rank")},
            "offset": ints[_INT["offset"]] + block.base,
        }  # fmt: skip

    def _host(self, block: Block, out: SortedRows) -> dict[str, Column]:
        ints, names = block.ints, block.texts("name")
        kind, role = self.texts.kind[block.texts("cat")], self.texts.role[block.texts("name")]
        pid, tid = (self._thread(block, name) for name in ("pid", "tid"))
        start, dur, rank = ints[_INT["ts"]], ints[_INT["dur"]], self._rank(block)
        calls = np.flatnonzero((kind == KIND["runtime"]) | (kind == KIND["driver"]))
        first = rank[calls]
        second = pid[calls]
        changes = np.flatnonzero((np.diff(first) != 0) | (np.diff(second) != 0))
        at = np.concatenate([changes, [len(first) - 1]]) if len(first) else changes
        out.launchers |= set(zip(first[at].tolist(), second[at].tolist(), strict=True))
        out.sequenced |= bool((ints[_INT["sequence"]] >= 0).any())
        if role.any():
            kind[(role == LOADING) & ((kind == KIND["op"]) | (kind == KIND["annotation"]))] = KIND["dataloader"]
            steps = np.flatnonzero((role == STEP) & (dur >= 0))
            out.cycles += self._steps(names[steps], start[steps], dur[steps], rank[steps])
        return {
            "start_ns": start, "dur_ns": dur, "name": names, "kind": kind, "pid": pid, "tid": tid, "rank": rank,
            "correlation": ints[_INT["correlation"]], "external_id": ints[_INT["external_id"]],
            "offset": ints[_INT["offset"]] + block.base, "sequence": _above(ints[_INT["sequence"]], -1),
            "forward_tid": _above(ints[_INT["forward_tid"]], 0),
            **{name: block.texts(name) for name in ("kernel", "shapes", "types", "inputs")},
        }  # fmt: skip

    def _steps(self, names: Codes, start: Ints, dur: Ints, rank: Ints) -> list[Cycle]:
        labels = [self.strings.texts[name] for name in names.tolist()]
        numbers = [int(label.rpartition("#")[2]) for label in labels]
        ranks = [None if number == NULL else number for number in rank.tolist()]
        return list(zip(numbers, start.tolist(), dur.tolist(), labels, ranks, strict=True))

    def _thread(self, block: Block, name: str) -> npt.NDArray[np.int64]:
        value: npt.NDArray[np.int64] = block.ints[_INT[name]]
        if int(block.codes[_CODE[f"{name}_text"]].max()) < 0:
            return value
        return np.where(value == NULL, self.texts.number[block.texts(f"{name}_text")], value)

    def _rank(self, block: Block) -> npt.NDArray[np.int64]:
        """The rank of each row: that of the label of its pid, else as recorded."""
        recorded: npt.NDArray[np.int64] = block.ints[_INT["rank"]]
        codes = block.texts("pid_text")
        if int(codes.max()) < 0:
            return recorded
        labelled = self.texts.labelled[codes]
        return np.where(labelled != NULL, labelled, recorded)

    def cycle(self, label: str, start: int, dur: int) -> None:
        """Add a recorded step; its number is the digits of its label or, without any, its position."""
        digits = "".join(filter(str.isdigit, label))[-18:]
        self.begin(start)
        self.cycles.append((int(digits) if digits else len(self.cycles), start, dur, label, None))

    def sample(self, columns: dict[str, Column]) -> None:
        """Add rows of ``metrics``, with texts as codes of ``strings``."""
        self.begin(int(columns["ts_ns"].min()))
        self._put("metrics", chunk(columns))

    def finish(self, rank: int | None, lasting: bool = True) -> dict[str, pl.LazyFrame]:
        """The tables kernels, host, metrics, cycles, allocations, times from ``earliest``; in files if ``lasting``."""
        self.rank = rank
        for table, spool in self.spools.items():
            spool.close(self._basis(table), lasting)
        out = {table: spool.finish(self._basis(table), lasting) for table, spool in self.spools.items()}
        for table, chunks in self.timeless.items():
            if chunks:
                from .table_frames import with_timeless

                spool = self.spools[table]
                path = spool.workspace / f"{table}-timeless.arrow" if lasting else None
                out[table] = with_timeless(
                    table, out[table], self.texts, chunks, self._basis(table), spool.rows, path)
        out["cycles"] = self._cycles(rank)
        out["allocations"] = self.allocations.table(self.earliest or 0, rank)
        return out

    def held_host(self) -> HeldRows | None:
        """After ``finish``; see ``Trace.held_host``. None where rows without a start stand behind the others."""
        return None if self.timeless["host"] else self.spools["host"].held(self._basis("host"))

    def settle(self) -> None:
        """Wait until all files are written. Raises any error of a write."""
        for spool in self.spools.values():
            spool.settle()

    def close(self) -> None:
        """Cancel pending writes and wait for those in progress."""
        self._writer.shutdown(cancel_futures=True)

    def preview(self, rank: int | None, limit: int) -> dict[str, pl.LazyFrame]:
        """The first rows of each table, in memory. May be called while another thread adds rows."""
        out = {table: spool.preview(self._basis(table), limit) for table, spool in self.spools.items()}
        out["cycles"] = self._cycles(rank)
        return out

    def _basis(self, table: str) -> Basis:
        """The values common to all rows of a table, as known so far."""
        if table != "kernels":
            return Basis(self.earliest or 0, rank=self.rank)
        launchers = self.launchers.copy()
        pids = {None if rank == NULL else rank: pid for rank, pid in launchers if pid != NULL}
        pids = pids if len(pids) == len(launchers) else {}
        return Basis(self.earliest or 0, tuple(sorted(pids.items(), key=str)), self.rank, self.texts.device_word)

    def _cycles(self, rank: int | None) -> pl.LazyFrame:
        import polars as pl

        from .. import schema

        if not self.cycles:
            return schema.empty("cycles")
        ordered = sorted(self.cycles, key=lambda cycle: (-1 if cycle[4] is None else cycle[4], cycle[1]))
        number, start, dur, label, ranks = zip(*ordered, strict=True)
        frame = pl.DataFrame(
            {"cycle": number, "start_ns": start, "dur_ns": dur, "label": label, "rank": ranks},
            schema_overrides={"rank": pl.Int64},
        ).with_columns(
            pl.col("start_ns") - (self.earliest or 0), pl.col("rank").fill_null(pl.lit(rank, pl.Int64)),
            kind=pl.lit("step"), source=pl.lit("recorded"), complete=True,
        )  # fmt: skip
        return schema.conform("cycles", frame.lazy())


def counts_of(block: Block) -> Ints:
    """How many events each category code has."""
    codes = block.texts("cat")
    return np.bincount(codes[codes >= 0]).astype(np.int64, copy=False)


def _prints(columns: dict[str, Column]) -> Ints:
    """A number for each row with a duration, different for rows that differ, but for chance."""
    result = np.zeros(len(columns["start_ns"]), np.int64)
    for at, name in enumerate(("start_ns", "dur_ns", "name", "correlation", "tid", "stream", "device")):
        if name in columns:
            result ^= columns[name].astype(np.int64) * _PRIMES[at]
            result *= _PRIMES[0]
    real: Ints = result[columns["dur_ns"] > 0]
    return real


def _sizes(sizes: Ints, wrong: Counter[tuple[str, str]]) -> Ints:
    """The sizes, with NULL for those that cannot be; these are counted."""
    beyond = ((sizes < 0) | (sizes > 1 << 62)) & (sizes != NULL)
    if not beyond.any():
        return sizes
    wrong["bytes", OUT_OF_RANGE] += int(np.count_nonzero(beyond))
    return np.where(beyond, NULL, sizes)


def _above(values: npt.NDArray[np.int64], none: int) -> npt.NDArray[np.int64]:
    """The values, with those up to ``none`` replaced by NULL."""
    if int(values.max()) <= none:
        return np.broadcast_to(np.int64(NULL), len(values))
    return np.where(values > none, values, NULL)
