"""Both readers on bytes in memory, and a third reading that shares nothing with them but the names of kinds."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from warplens.loaders.kineto import dialect
from warplens.loaders.kineto.columns import Strings
from warplens.loaders.kineto.deferred_events import DeferredEvents
from warplens.loaders.kineto.document import open_document
from warplens.loaders.kineto.info import Tally
from warplens.loaders.kineto.pipeline import Pipeline
from warplens.loaders.kineto.plain import Plain
from warplens.loaders.kineto.scan import SCANNER
from warplens.loaders.kineto.tables import Tables
from warplens.loaders.native.functions import Native

KERNELS = (
    "start_ns dur_ns name kind device stream correlation op_id graph grid block registers shared_bytes occupancy "
    "blocks_per_sm bytes collective process_group group_ranks dtype group_size in_elements out_elements seq "
    "src_rank dst_rank rank"
).split()
HOST = "start_ns dur_ns name kind pid tid correlation external_id rank sequence forward_tid".split()
METRICS = "ts_ns metric device value unit pid rank".split()
ALLOCATIONS = "start_ns dur_ns bytes device address pid tid rank".split()
Row = tuple[Any, ...]


@dataclass
class Reading:
    """What one reader made of some bytes: rows of each table, and what it counted."""

    kernels: list[Row]
    host: list[Row]
    metrics: list[Row]
    cycles: list[Row]
    tally: Tally
    found: bool = True
    allocations: list[Row] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    ignored: dict[str, int] = field(default_factory=dict)
    broken: int = 0

    def rows(self) -> tuple[list[Row], ...]:
        return self.kernels, self.host, self.metrics, self.cycles, self.allocations


@cache
def native() -> Native:
    """The compiled scanner."""
    import kept_code

    return kept_code.native(SCANNER)


class Bytes(io.BytesIO):
    """Bytes that can be read from anywhere, as a plain file."""

    @property
    def size(self) -> int:
        return len(self.getbuffer())

    def read_at(self, view: memoryview, place: int) -> int:
        part = self.getvalue()[place : place + len(view)]
        view[: len(part)] = part
        return len(part)


def read(data: bytes, folder: Path, *, compiled: bool, block: int, plain: bool = False) -> Reading:
    """The tables of a document read in blocks of a size, offsets as the last column of kernels and host.

    ``plain`` has each thread of the compiled reader read its own blocks, as of plain files.
    """
    source = Bytes(data)
    document = open_document(source, block)
    tally = Tally()
    if not document.has_events:
        return Reading([], [], [], [], tally, False)
    tables = Tables(Strings(), folder)
    aside = DeferredEvents(folder, tables)
    try:
        if compiled:
            pipeline = Pipeline(native(), document, tables, aside, tally, block)
            pipeline.run(source, lambda events: None, plain)
        else:
            Plain(document, tables, aside, tally, block).run(source, lambda events: None)
        aside.resolve()
        tally.repaired += aside.repaired
    finally:
        aside.close()
    frames = tables.finish(None)

    tables.close()

    def rows(table: str, columns: list[str]) -> list[Row]:
        return frames[table].select(columns).collect().rows()

    return Reading(
        rows("kernels", [*KERNELS, "offset"]), rows("host", [*HOST, "offset"]), rows("metrics", METRICS),
        rows("cycles", ["cycle", "start_ns", "dur_ns", "label"]), tally, allocations=rows("allocations", ALLOCATIONS),
        texts=tables.strings.texts, ignored=dict(+aside.ignored), broken=aside.broken,
    )  # fmt: skip


LATEST_NS, LONGEST_NS = 4 * 10**18, 10**16
"""No clock is later and nothing takes longer: what is beyond is damage."""


def accepted(data: bytes) -> bool:
    """Whether orjson takes the document, and takes it for a trace."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    events = document.get("traceEvents") if isinstance(document, dict) else document
    return isinstance(events, list)


def reference(data: bytes) -> tuple[list[Row], list[Row]]:
    """Kernels and host slices of a document by json with Decimal, those without category and time last."""
    document = json.loads(data, parse_float=_Written)
    events = document["traceEvents"] if isinstance(document, dict) else document
    kernels: list[list[Any]] = []
    host: list[list[Any]] = []
    slices = [event for event in events if isinstance(event, dict) and event.get("ph") == "X"]
    for event in sorted(slices, key=lambda event: not isinstance(event.get("cat"), str)):
        name, category = event.get("name"), event.get("cat")
        if not isinstance(category, str):
            category = dialect.category_without(name if isinstance(name, str) else "")
        kind = dialect.kind_of_category(category)
        if isinstance(name, int | Decimal) and not isinstance(name, bool):
            name = _as_written(name)
        name = name if isinstance(name, str) else None
        kind = dialect.kind_of_name(kind, name) if name is not None else kind
        start = _ns(event.get("ts"))
        start = None if start is None or abs(start) > LATEST_NS else start
        nothing = start is None and name is None and kind not in dialect.DEVICE_KINDS
        if kind in (dialect.RANGE, dialect.IGNORED) or nothing:
            continue
        args = event["args"] if isinstance(event.get("args"), dict) else {}
        external = args.get("External id", None)
        external = _id(args.get("external id") if external is None else external)
        dur = _ns(event.get("dur"))
        dur = None if start is None or (dur is not None and dur > LONGEST_NS) else dur
        common = [start, None if dur is not None and dur < 0 else dur, name, kind]
        rank, correlation = _id(args.get("rank")), _id(args.get("correlation"))
        pid, tid = _lane(event.get("pid")), _lane(event.get("tid"))
        if kind not in dialect.DEVICE_KINDS:
            sequence, forward = _id(args.get("Sequence number")), _id(args.get("Fwd thread id"))
            sequence = sequence if sequence is not None and sequence >= 0 else None
            forward = forward if (forward or 0) > 0 else None
            host.append([*common, pid, tid, correlation, external, rank, sequence, forward])
            continue
        device, stream = _id(args.get("device")), _id(args.get("stream"))
        device, stream = pid if device is None else device, tid if stream is None else stream
        graph, node = _id(args.get("graph id")), _id(args.get("graph node id"))
        if not graph and node is not None and node > 0:
            graph = node >> 32
        occupancy, blocks = _real(args.get("est. achieved occupancy %")), _real(args.get("blocks per SM"))
        kernels.append([
            *common, f"GPU {device}" if device is not None and device >= 0 else None, stream, correlation, external,
            graph or None, _triple(args.get("grid")), _triple(args.get("block")),
            _amount(args.get("registers per thread"), 31), _amount(args.get("shared memory")),
            None if occupancy is None else occupancy / 100, blocks, _amount(args.get("bytes")),
            *_collective(args), rank,
        ])  # fmt: skip
    return _relative(kernels), _relative(host)


def _collective(args: dict[str, Any]) -> list[Any]:
    """What a kernel says of the collective it belongs to, in the order of the columns."""
    group, members = args.get("Process Group Name"), args.get("Process Group Ranks")
    if isinstance(group, int | Decimal) and not isinstance(group, bool):
        group = _as_written(group)
    members = _triple(members) if isinstance(members, list) else members
    texts = [args.get("Collective name"), group, members, args.get("dtype")]
    texts = [text if isinstance(text, str) else None for text in texts]
    if texts[2] is not None:
        texts[2] = "".join(sign for sign in texts[2] if sign not in " \t\r\n").strip("[]")
    sizes = [_amount(args.get(key)) for key in ("Group size", "In msg nelems", "Out msg nelems")]
    return [*texts, *sizes, *(_id(args.get(key)) for key in ("Seq", "Src Rank", "Dst Rank"))]


def _relative(rows: list[list[Any]]) -> list[Row]:
    first = min((row[0] for row in rows if row[0] is not None), default=0)
    ordered = sorted(rows, key=lambda row: row[0] is None)
    return [(_later(row[0], first), *(_single(cell) for cell in row[1:])) for row in ordered]


def _later(time: int | None, first: int) -> int | None:
    return None if time is None else time - first


def relative(rows: list[Row]) -> list[Row]:
    """Rows of a reading without their offsets, times from the earliest of them, to hold against ``reference``."""
    first = min((row[0] for row in rows if row[0] is not None), default=0)
    return [(_later(row[0], first), *row[1:-1]) for row in rows]


def _single(cell: Any) -> Any:
    return pl.Series([cell], dtype=pl.Float32)[0] if isinstance(cell, float) else cell


def _ns(value: Any) -> int | None:
    if isinstance(value, str):
        if not re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", value, re.ASCII):
            return None
        value = Decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    if abs(value) > 1e20:
        return None
    exact = int((Decimal(value) * 1000).quantize(Decimal(1), ROUND_HALF_UP))
    return exact if -(2**63) < exact < 2**63 else None


def _id(value: Any) -> int | None:
    if isinstance(value, str):
        value = int(value) if re.fullmatch(r"-?\d{1,18}", value, re.ASCII) else None
    if isinstance(value, Decimal):
        value = int(value) if abs(value) < 10**18 and int(value) == value else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    value = value - 2**64 if 2**63 <= value < 2**64 else value
    return value if -(2**63) < value < 2**63 else None


def _amount(value: Any, bits: int = 63) -> int | None:
    number = None if isinstance(value, int) and value >= 2**63 else _id(value)
    return number if number is None or -(2**bits) <= number < 2**bits else None


def _lane(value: Any) -> int | None:
    return dialect.number_in(value[:64]) if isinstance(value, str) else _id(value)


def _real(value: Any) -> float | None:
    number = float(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else None
    return None if number is None or number != number else number


def _triple(value: Any) -> str | None:
    if not isinstance(value, list) or not value:
        return None
    if any(isinstance(part, bool) or not isinstance(part, int | Decimal) for part in value):
        return None
    return ",".join(map(_as_written, value))


class _Written(Decimal):
    """A number that remembers how it was written."""

    text: str

    def __new__(cls, text: str) -> _Written:
        self = super().__new__(cls, text)
        self.text = text
        return self


def _as_written(value: int | Decimal) -> str:
    return value.text if isinstance(value, _Written) else str(value)
