"""Raw event columns → the tables of a Trace: kinds, devices, streams, names, all decided here and only here.

Blocks arrive in file order. What a text means (its kind as a category, its category code as a name, its number as a
thread id) is computed once per distinct text and looked up for every row. Finished rows wait in memory and are spilled
to the workspace when they grow, so memory is bounded whatever the size of the file; at the end each table is written
once, with its times counted from the earliest slice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from .. import schema
from . import dialect
from .columns import CODES, FLOATS, INTS, NULL, Block, Codes, Strings
from .layout import DEVICE, HOST, UNKNOWN
from .spool import Basis, Spool
from .texts import CATEGORICAL, KIND, Texts

_MANY = 1 << 12
"""Numbers of devices below this are looked up; others are sorted."""

_DEVICE_END, _RANGE = len(dialect.DEVICE_KINDS), KIND[dialect.RANGE]
_INT = {name: row for row, name in enumerate(INTS)}
_CODE = {name: row for row, name in enumerate(CODES)}
_FLOAT = {name: row for row, name in enumerate(FLOATS)}


@dataclass(slots=True)
class Rows:
    """A block as rows of tables, times still absolute, ``NULL`` and NaN for missing.

    ``ranges`` are (offset, end) in the block of profiler ranges, whose arguments are metrics; ``cycles`` and
    ``launchers`` as in ``Tables``.
    """

    kernels: pl.DataFrame | None = None
    host: pl.DataFrame | None = None
    ranges: list[tuple[int, int]] = field(default_factory=list)
    cycles: list[tuple[int, int, int, str, int | None]] = field(default_factory=list)
    launchers: set[tuple[int, int]] = field(default_factory=set)
    earliest: int | None = None
    negative: int = 0
    untimed: int = 0
    ignored: int = 0


class Tables:
    """Collects blocks and samples; ``finish`` gives the four tables.

    ``rows_of`` may be called from any thread; everything else in the order of the file. ``launchers`` are the (rank,
    pid) that called the runtime, ``cycles`` (number, start, duration, label, rank).
    """

    def __init__(self, strings: Strings, workspace: Path) -> None:
        self.strings, self.texts = strings, Texts(strings)
        self.spools = {table: Spool(table, workspace) for table in ("kernels", "host", "metrics")}
        self.cycles: list[tuple[int, int, int, str, int | None]] = []
        self.earliest: int | None = None
        self.negative = 0
        self.untimed = 0
        self.ignored = 0
        self.launchers: set[tuple[int, int]] = set()
        self.device_word = "GPU"
        self.rank: int | None = None

    def places(self, categories: Codes) -> npt.NDArray[np.uint8]:
        """Where events of each category go."""
        kind = self.texts.kind[categories]
        return np.select([kind < _DEVICE_END, kind < _RANGE], [DEVICE, HOST], UNKNOWN).astype(np.uint8)

    def rows_of(self, block: Block, device: Block | None = None, host: Block | None = None) -> Rows:
        """What a block becomes, and with it those of its events that were known to be of devices and of the host.

        Rows are in the order of the file. Those of the host may be views of the integers of ``host``, which
        belong to them from then on.
        """
        rows = Rows()
        parts: list[tuple[Block | None, Block | None]] = [(device, host)]
        if block.rows:
            parts.append(self._sorted_out(block, rows))
        rows.kernels = _in_order([self._kernels(each) for each, _ in parts if each is not None and each.rows])
        rows.host = _in_order([self._host(each, rows) for _, each in parts if each is not None and each.rows])
        frames = [frame for frame in (rows.kernels, rows.host) if frame is not None]
        rows.earliest = min((int(frame["start_ns"].to_numpy().min()) for frame in frames), default=None)
        rows.negative = sum(int(frame["dur_ns"].is_between(NULL + 1, -1).sum()) for frame in frames)
        return rows

    def _sorted_out(self, block: Block, rows: Rows) -> tuple[Block, Block]:
        """The events of devices and of the host; the others are counted or noted."""
        ints, kind = block.ints, self.texts.kind[block.codes[_CODE["cat"]]]
        timed = ints[_INT["ts"]] != NULL
        device = np.flatnonzero((kind < _DEVICE_END) & timed)
        host = np.flatnonzero((kind >= _DEVICE_END) & (kind < _RANGE) & timed)
        ranges = np.flatnonzero((kind == _RANGE) & timed)
        rows.untimed = int(len(timed) - timed.sum())
        rows.ignored = block.rows - len(device) - len(host) - len(ranges) - rows.untimed
        spans = zip(ints[_INT["offset"], ranges].tolist(), ints[_INT["end"], ranges].tolist(), strict=True)
        rows.ranges = list(spans)
        return block.take(device), block.take(host)

    def add(self, rows: Rows) -> None:
        """Append the rows of the next block."""
        self.cycles += rows.cycles
        self.launchers |= rows.launchers
        self.negative += rows.negative
        self.untimed += rows.untimed
        self.ignored += rows.ignored
        self._begin(rows.earliest)
        for table, frame in (("kernels", rows.kernels), ("host", rows.host)):
            if frame is not None:
                self._put(table, frame)

    def _put(self, table: str, frame: pl.DataFrame) -> None:
        spool = self.spools[table]
        spool.add(frame)
        if spool.full:
            spool.spill(self._basis(table))

    def _begin(self, start: int | None) -> None:
        if start is not None:
            self.earliest = start if self.earliest is None else min(self.earliest, start)

    def _kernels(self, block: Block) -> pl.DataFrame:
        ints, codes = block.ints, block.codes

        def column(name: str) -> npt.NDArray[np.int64]:
            """A copy: half of the block's columns are not kept."""
            found: npt.NDArray[np.int64] = ints[_INT[name]].copy()
            return found

        kind = self.texts.kind[codes[_CODE["cat"]]]
        kind[(kind == KIND["kernel"]) & self.texts.collective[codes[_CODE["name"]]]] = KIND["collective"]
        stream = np.where(ints[_INT["stream"]] != NULL, ints[_INT["stream"]], self._thread(ints, codes, "tid"))
        device = np.where(ints[_INT["device"]] != NULL, ints[_INT["device"]], self._thread(ints, codes, "pid"))
        graph, node = ints[_INT["graph"]], ints[_INT["graph_node"]]
        graph = np.where((graph == NULL) | (graph == 0), np.where(node > 0, node >> 32, 0), graph)
        return pl.DataFrame(
            {
                "start_ns": column("ts"),
                "dur_ns": column("dur"),
                "name": self.texts.names(codes[_CODE["name"]]),
                "kind": _kinds(kind),
                "device": self._device_names(device),
                "stream": stream,
                "rank": column("rank"),
                "correlation": column("correlation"),
                "op_id": column("external_id"),
                "graph": np.where(graph == 0, NULL, graph),
                "grid": self.texts.triples(codes[_CODE["grid"]]),
                "block": self.texts.triples(codes[_CODE["block"]]),
                "registers": column("registers"),
                "shared_bytes": column("shared"),
                "occupancy": (block.floats[_FLOAT["occupancy"]] / 100).astype(np.float32),
                "blocks_per_sm": block.floats[_FLOAT["blocks_per_sm"]].astype(np.float32),
                "bytes": column("bytes"),
                "offset": ints[_INT["offset"]] + block.base,
            }
        )

    def _host(self, block: Block, out: Rows) -> pl.DataFrame:
        ints, names = block.ints, block.codes[_CODE["name"]]
        kind = self.texts.kind[block.codes[_CODE["cat"]]]
        loading = self.texts.data_loading[names] & ((kind == KIND["op"]) | (kind == KIND["annotation"]))
        kind[loading] = KIND["dataloader"]
        pid, tid = (self._thread(ints, block.codes, name) for name in ("pid", "tid"))
        start, dur, rank, offset = (ints[_INT[name]] for name in ("ts", "dur", "rank", "offset"))
        offset += block.base
        calls = np.flatnonzero((kind == KIND["runtime"]) | (kind == KIND["driver"]))
        out.launchers = _pairs(rank[calls], pid[calls])
        step = self.texts.step[names]
        for row in np.flatnonzero((step >= 0) & (dur != NULL)).tolist():
            own = None if rank[row] == NULL else int(rank[row])
            out.cycles.append((int(step[row]), int(start[row]), int(dur[row]), self.strings.texts[names[row]], own))
        return pl.DataFrame(
            {
                "start_ns": start, "dur_ns": dur, "name": self.texts.names(names), "kind": _kinds(kind), "pid": pid,
                "tid": tid, "rank": rank, "correlation": ints[_INT["correlation"]],
                "external_id": ints[_INT["external_id"]], "offset": offset,
            }
        )  # fmt: skip

    def _thread(self, ints: npt.NDArray[np.int64], codes: npt.NDArray[np.int32], name: str) -> npt.NDArray[np.int64]:
        value: npt.NDArray[np.int64] = ints[_INT[name]]
        text = codes[_CODE[f"{name}_text"]]
        return value if int(text.max()) < 0 else np.where(value == NULL, self.texts.number[text], value)

    def _device_names(self, device: npt.NDArray[np.int64]) -> pl.Series:
        low, high = int(device.min()), int(device.max())
        if low >= 0 and high < _MANY:
            distinct, places = np.arange(high + 1), device
        else:
            distinct, places = np.unique(device, return_inverse=True)
        names = [f"{self.device_word} {n}" if n >= 0 else None for n in distinct.tolist()]
        return pl.Series(names, dtype=CATEGORICAL).gather(pl.Series(places))

    def cycle(self, label: str, start: int, dur: int) -> None:
        """Take in a recorded step whose number is the one in its label, else its place in order."""
        digits = "".join(filter(str.isdigit, label))[-18:]
        self._begin(start)
        self.cycles.append((int(digits) if digits else len(self.cycles), start, dur, label, None))

    def sample(self, samples: pl.DataFrame) -> None:
        """Take in rows of ``metrics`` with absolute times."""
        if not samples.is_empty():
            self._begin(int(samples["ts_ns"].to_numpy().min()))
            self._put("metrics", samples)

    def finish(self, rank: int | None, lasting: bool = True) -> dict[str, pl.LazyFrame]:
        """The tables kernels, host, metrics and cycles, times counted from the earliest; files if they must last."""
        self.rank = rank
        out = {table: spool.finish(self._basis(table), lasting) for table, spool in self.spools.items()}
        out["cycles"] = self._cycles(rank)
        return out

    def preview(self, rank: int | None, limit: int) -> dict[str, pl.LazyFrame]:
        """The first rows of each table so far, in memory. May be called while another thread adds rows."""
        out = {table: spool.preview(self._basis(table), limit) for table, spool in self.spools.items()}
        out["cycles"] = self._cycles(rank)
        return out

    def _basis(self, table: str) -> Basis:
        """What is known by now of all rows of a table."""
        pids: dict[int | None, int] = {}
        if table == "kernels":
            launchers = self.launchers.copy()
            pids = {None if own == NULL else own: pid for own, pid in launchers if pid != NULL}
            pids = pids if len(pids) == len(launchers) else {}
        return Basis(self.earliest or 0, tuple(sorted(pids.items(), key=str)), self.rank)

    def _cycles(self, rank: int | None) -> pl.LazyFrame:
        if not self.cycles:
            return schema.empty("cycles")
        ordered = sorted(self.cycles, key=lambda cycle: (-1 if cycle[4] is None else cycle[4], cycle[1]))
        number, start, dur, label, own = zip(*ordered, strict=True)
        frame = pl.DataFrame(
            {"cycle": number, "start_ns": start, "dur_ns": dur, "label": label, "rank": own},
            schema_overrides={"rank": pl.Int64},
        ).with_columns(
            pl.col("start_ns") - (self.earliest or 0), pl.col("rank").fill_null(pl.lit(rank, pl.Int64)),
            kind=pl.lit("step"), source=pl.lit("recorded"), complete=True,
        )  # fmt: skip
        return schema.conform("cycles", frame.lazy())


def _in_order(frames: list[pl.DataFrame]) -> pl.DataFrame | None:
    """Rows of one table from one stretch of the file, in its order."""
    return pl.concat(frames).sort("offset") if len(frames) > 1 else frames[0] if frames else None


def _pairs(first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> set[tuple[int, int]]:
    """The distinct pairs, of which there are few."""
    changes = np.flatnonzero((np.diff(first) != 0) | (np.diff(second) != 0))
    at = np.concatenate([changes, [len(first) - 1]]) if len(first) else changes
    return set(zip(first[at].tolist(), second[at].tolist(), strict=True))


_KIND_NAMES = pl.Series(list(dialect.KINDS), dtype=CATEGORICAL)


def _kinds(kind: npt.NDArray[np.uint8]) -> pl.Series:
    return _KIND_NAMES.gather(pl.Series(kind))
