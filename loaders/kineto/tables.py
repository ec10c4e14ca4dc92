"""Raw event columns → the tables of a Trace: kinds, devices, streams, names, all decided here and only here.

Blocks arrive in file order. What a text means (its kind as a category, its category code as a name, its number as a
thread id) is computed once per distinct text and looked up for every row. Finished rows wait in memory and are spilled
to the workspace when they grow, so memory is bounded whatever the size of the file; at the end each table is written
once, with its times counted from the earliest slice.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from .. import schema
from . import dialect
from .columns import CODES, FLOATS, INTS, NULL, Block, Strings

SPILL_BYTES = 96 << 20
"""Rows of one table kept in memory before they go to a file."""

_KIND = {kind: number for number, kind in enumerate(dialect.KINDS)}
_DEVICE_END, _HOST_END, _RANGE = len(dialect.DEVICE_KINDS), _KIND[dialect.RANGE], _KIND[dialect.RANGE]
_INT = {name: row for row, name in enumerate(INTS)}
_CODE = {name: row for row, name in enumerate(CODES)}
_FLOAT = {name: row for row, name in enumerate(FLOATS)}
_CATEGORICAL = pl.Categorical()


class Texts:
    """What each distinct text means, as arrays to look codes up in; the last entry of each stands for 'missing'."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._known = 0
        self.physical = np.zeros(1, np.uint32)
        self.kind = np.full(1, _KIND["annotation"], np.uint8)
        self.by_name = np.arange(len(dialect.KINDS), dtype=np.uint8)[None, :].copy()
        self.step = np.full(1, -1, np.int64)
        self.number = np.full(1, NULL, np.int64)
        self.unknown: dict[str, int] = {}

    def update(self) -> None:
        """Take in the texts that were added since the last time."""
        new = self._strings.texts[self._known :]
        if not new:
            return
        self._known += len(new)
        texts = pl.Series(new, dtype=_CATEGORICAL).to_physical().to_numpy()
        self.physical = _insert(self.physical, texts)
        self.kind = _insert(self.kind, [_KIND[dialect.kind_of_category(text)] for text in new])
        self.by_name = _insert(self.by_name, [self._kinds_of_name(text) for text in new])
        self.step = _insert(self.step, [-1 if (n := dialect.step_number(text)) is None else n for text in new])
        self.number = _insert(self.number, [NULL if len(text) > 64 else dialect.number_in(text) for text in new])

    def _kinds_of_name(self, text: str) -> list[int]:
        kinds = list(range(len(dialect.KINDS)))
        for kind in ("kernel", "op", "annotation"):
            kinds[_KIND[kind]] = _KIND[dialect.kind_of_name(kind, text)]
        return kinds

    def names(self, codes: npt.NDArray[np.int32]) -> pl.Series:
        """The texts as a categorical column, null where missing."""
        series = pl.Series(self.physical[codes]).cat.to(_CATEGORICAL)
        if len(codes) and int(codes.min()) < 0:
            return pl.select(pl.when(pl.Series(codes >= 0)).then(series)).to_series()
        return series

    def triples(self, codes: npt.NDArray[np.int32]) -> pl.Series:
        """Grids and blocks as 'x,y,z', however the list was spaced in the file."""
        distinct, places = np.unique(codes, return_inverse=True)
        texts = [None if code < 0 else ",".join(self._strings.texts[code].split()) for code in distinct]
        clean = [None if text is None else ",".join(p for p in text.split(",") if p) for text in texts]
        return pl.Series(clean, dtype=_CATEGORICAL).gather(pl.Series(places))


def _insert(array: npt.NDArray[Any], values: Any) -> npt.NDArray[Any]:
    """The array with values added before its last entry."""
    return np.concatenate([array[:-1], np.asarray(values, array.dtype).reshape(-1, *array.shape[1:]), array[-1:]])


class Spool:
    """The rows of one table on their way: in memory, then in files of the workspace."""

    def __init__(self, table: str, workspace: Path) -> None:
        self.table, self.workspace = table, workspace
        self.rows = 0
        self._frames: list[pl.DataFrame] = []
        self._bytes = 0
        self._files: list[Path] = []

    def add(self, frame: pl.DataFrame) -> None:
        """Append rows; columns of the table that are not there are null."""
        if frame.is_empty():
            return
        self.rows += frame.height
        self._frames.append(frame)
        self._bytes += frame.height * 8 * frame.width
        if self._bytes > SPILL_BYTES:
            self._spill()

    def _spill(self) -> None:
        path = self.workspace / f".{self.table}-{len(self._files)}.arrow"
        pl.concat(self._frames).write_ipc(path, compression="lz4")
        self._files.append(path)
        self._frames, self._bytes = [], 0

    def finish(self, shape: Callable[[pl.LazyFrame], pl.LazyFrame]) -> pl.LazyFrame:
        """Write the table as ``<table>.arrow``, shaped, and hand out a scan of it."""
        parts = [pl.scan_ipc(path) for path in self._files] + [frame.lazy() for frame in self._frames]
        if not parts:
            return schema.empty(self.table)
        path = self.workspace / f"{self.table}.arrow"
        schema.conform(self.table, shape(pl.concat(parts))).sink_ipc(path, compression="lz4")
        self._frames = []
        for spilled in self._files:
            spilled.unlink()
        return pl.scan_ipc(path)


class Tables:
    """Collects blocks and samples; ``finish`` gives the four tables."""

    def __init__(self, strings: Strings, workspace: Path) -> None:
        self.strings, self.texts = strings, Texts(strings)
        self.spools = {table: Spool(table, workspace) for table in ("kernels", "host", "metrics")}
        self.cycles: list[tuple[int, int, int | None, str, int | None]] = []
        self.earliest: int | None = None
        self.negative = 0
        self.untimed = 0
        self.ignored = 0
        self.launchers: set[tuple[int, int]] = set()
        self.device_word = "GPU"

    def add(self, block: Block) -> list[tuple[int, int]]:
        """Take in a block; returns (offset, end) in the block of the profiler ranges, whose arguments are metrics."""
        if not block.rows:
            return []
        self.texts.update()
        ints, codes = block.ints, block.codes
        kind = self.texts.kind[codes[_CODE["cat"]]]
        kind = self.texts.by_name[codes[_CODE["name"]], kind]
        timed = ints[_INT["ts"]] != NULL
        self.untimed += int(len(timed) - timed.sum())
        device = np.flatnonzero((kind < _DEVICE_END) & timed)
        host = np.flatnonzero((kind >= _DEVICE_END) & (kind < _HOST_END) & timed)
        ranges = np.flatnonzero((kind == _RANGE) & timed)
        self.ignored += block.rows - len(device) - len(host) - len(ranges)
        for rows, fill in ((device, self._kernels), (host, self._host)):
            if len(rows):
                self._see(ints[_INT["ts"], rows], ints[_INT["dur"], rows])
                fill(block, rows, kind[rows])
        spans = zip(ints[_INT["offset"], ranges].tolist(), ints[_INT["end"], ranges].tolist(), strict=True)
        return list(spans)

    def _see(self, starts: npt.NDArray[np.int64], durations: npt.NDArray[np.int64]) -> None:
        first = int(starts.min())
        self.earliest = first if self.earliest is None else min(self.earliest, first)
        self.negative += int(((durations < 0) & (durations != NULL)).sum())

    def _kernels(self, block: Block, rows: npt.NDArray[np.intp], kind: npt.NDArray[np.uint8]) -> None:
        ints = block.ints[:, rows]
        codes = block.codes[:, rows]
        stream = np.where(ints[_INT["stream"]] != NULL, ints[_INT["stream"]], self._thread(ints, codes, "tid"))
        device = np.where(ints[_INT["device"]] != NULL, ints[_INT["device"]], self._thread(ints, codes, "pid"))
        graph, node = ints[_INT["graph"]], ints[_INT["graph_node"]]
        graph = np.where((graph == NULL) | (graph == 0), np.where(node > 0, node >> 32, 0), graph)
        occupancy = block.floats[_FLOAT["occupancy"], rows] / 100
        spool = self.spools["kernels"]
        frame = pl.DataFrame(
            {
                "index": np.arange(spool.rows, spool.rows + len(rows)),
                "start_ns": ints[_INT["ts"]],
                "dur_ns": ints[_INT["dur"]],
                "name": self.texts.names(codes[_CODE["name"]]),
                "kind": _kinds(kind),
                "device": self._device_names(device),
                "stream": stream,
                "rank": ints[_INT["rank"]],
                "correlation": ints[_INT["correlation"]],
                "op_id": ints[_INT["external_id"]],
                "graph": np.where(graph == 0, NULL, graph),
                "grid": self.texts.triples(codes[_CODE["grid"]]),
                "block": self.texts.triples(codes[_CODE["block"]]),
                "registers": ints[_INT["registers"]],
                "shared_bytes": ints[_INT["shared"]],
                "occupancy": pl.Series(occupancy, dtype=pl.Float32),
                "blocks_per_sm": pl.Series(block.floats[_FLOAT["blocks_per_sm"], rows], dtype=pl.Float32),
                "bytes": ints[_INT["bytes"]],
                "offset": ints[_INT["offset"]] + block.base,
            }
        )
        spool.add(_nullable(frame).with_columns(pl.col("registers").cast(pl.Int32, strict=False)))

    def _host(self, block: Block, rows: npt.NDArray[np.intp], kind: npt.NDArray[np.uint8]) -> None:
        ints = block.ints[:, rows]
        codes = block.codes[:, rows]
        frame = pl.DataFrame(
            {
                "start_ns": ints[_INT["ts"]],
                "dur_ns": ints[_INT["dur"]],
                "name": self.texts.names(codes[_CODE["name"]]),
                "kind": _kinds(kind),
                "pid": self._thread(ints, codes, "pid"),
                "tid": self._thread(ints, codes, "tid"),
                "rank": ints[_INT["rank"]],
                "correlation": ints[_INT["correlation"]],
                "external_id": ints[_INT["external_id"]],
                "offset": ints[_INT["offset"]] + block.base,
            }
        )
        self.spools["host"].add(_nullable(frame))
        calls = (kind == _KIND["runtime"]) | (kind == _KIND["driver"])
        self.launchers |= set(frame.filter(pl.Series(calls)).select("rank", "pid").unique().iter_rows())
        step = self.texts.step[codes[_CODE["name"]]]
        for row in np.flatnonzero(step >= 0).tolist():
            start, dur, rank = (int(ints[_INT[name], row]) for name in ("ts", "dur", "rank"))
            label = self.strings.texts[codes[_CODE["name"], row]]
            if dur != NULL:
                self.cycles.append((int(step[row]), start, dur, label, None if rank == NULL else rank))

    def _thread(self, ints: npt.NDArray[np.int64], codes: npt.NDArray[np.int32], name: str) -> npt.NDArray[np.int64]:
        value: npt.NDArray[np.int64] = ints[_INT[name]]
        text = codes[_CODE[f"{name}_text"]]
        return value if int(text.max()) < 0 else np.where(value == NULL, self.texts.number[text], value)

    def _device_names(self, device: npt.NDArray[np.int64]) -> pl.Series:
        distinct, places = np.unique(device, return_inverse=True)
        names = [f"{self.device_word} {n}" if n >= 0 else None for n in distinct.tolist()]
        return pl.Series(names, dtype=_CATEGORICAL).gather(pl.Series(places))

    def cycle(self, label: str, start: int, dur: int) -> None:
        """Take in a recorded step whose number is the one in its label, else its place in order."""
        digits = "".join(filter(str.isdigit, label))[-18:]
        self._see(np.array([start]), np.array([dur]))
        self.cycles.append((int(digits) if digits else len(self.cycles), start, dur, label, None))

    def sample(self, samples: pl.DataFrame) -> None:
        """Take in rows of ``metrics`` with absolute times."""
        if not samples.is_empty():
            first = int(samples["ts_ns"].min())  # type: ignore[arg-type]
            self.earliest = first if self.earliest is None else min(self.earliest, first)
            self.spools["metrics"].add(samples)

    def finish(self, rank: int | None) -> dict[str, pl.LazyFrame]:
        """The tables kernels, host, metrics and cycles, times counted from the earliest."""
        origin = self.earliest or 0

        pids = {own: pid for own, pid in self.launchers if pid != NULL}
        launcher = pl.col("rank").replace_strict(pids, default=None, return_dtype=pl.Int64)
        known = len(pids) == len(self.launchers)

        def shape(table: str) -> Callable[[pl.LazyFrame], pl.LazyFrame]:
            more = [pl.col("rank").fill_null(rank)] if rank is not None else []
            if table == "kernels" and known and pids:
                more.append(pl.coalesce(launcher, pl.lit(pids.get(NULL), pl.Int64)).alias("pid"))
            column = "ts_ns" if table == "metrics" else "start_ns"
            return lambda frame: frame.with_columns(pl.col(column) - origin, *more)

        out = {table: spool.finish(shape(table)) for table, spool in self.spools.items()}
        out["cycles"] = self._cycles(origin, rank)
        return out

    def _cycles(self, origin: int, rank: int | None) -> pl.LazyFrame:
        if not self.cycles:
            return schema.empty("cycles")
        ordered = sorted(self.cycles, key=lambda cycle: (-1 if cycle[4] is None else cycle[4], cycle[1]))
        number, start, dur, label, own = zip(*ordered, strict=True)
        frame = pl.DataFrame(
            {"cycle": number, "start_ns": start, "dur_ns": dur, "label": label, "rank": own},
            schema_overrides={"rank": pl.Int64},
        ).with_columns(
            pl.col("start_ns") - origin, pl.col("rank").fill_null(pl.lit(rank, pl.Int64)),
            kind=pl.lit("step"), source=pl.lit("recorded"), complete=True,
        )  # fmt: skip
        return schema.conform("cycles", frame.lazy())


_KIND_NAMES = pl.Series(list(dialect.KINDS), dtype=_CATEGORICAL)


def _kinds(kind: npt.NDArray[np.uint8]) -> pl.Series:
    return _KIND_NAMES.gather(pl.Series(kind))


def _nullable(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with NULL and NaN cells as nulls."""
    whole = [name for name, dtype in frame.schema.items() if dtype == pl.Int64]
    parts = [name for name, dtype in frame.schema.items() if dtype == pl.Float32]
    return frame.with_columns(
        *(pl.when(pl.col(name) != NULL).then(pl.col(name)).alias(name) for name in whole),
        *(pl.col(name).fill_nan(None) for name in parts),
    )
