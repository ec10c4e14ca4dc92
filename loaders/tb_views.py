"""View documents of the PyTorch TensorBoard profiler (torch_tb_profiler), one JSON document per line.

Each worker has up to five: overview, operator pies, operator table, kernel table, kernel pie. They hold sums rounded to
µs, but no launches and no timestamps. A document's keys tell which view it is; when a view occurs again, the next
worker begins. Every worker becomes its own Trace. Views may be missing: the pies then replace a missing table as far as
possible, and values that no view has are null.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import orjson
import polars as pl
from msgspec import Struct, field

from . import schema
from .collective_names import kernel_kind
from .errors import Unreadable
from .ingest import stream
from .loader import HEAD_BYTES, FormatLoader, Job
from .recording.faults import Faults
from .recording.values import LIMIT, Kind, number
from .trace import Device, Info, Trace

Document = dict[str, Any]
Steps = list[tuple[str, dict[str, int | None]]]

GAUGES = {
    "Utilization": "utilisation", "Est. SM Efficiency": "sm_efficiency", "Est. Achieved Occupancy": "occupancy",
    "Kernel Time using Tensor Cores": "tensor_share",
}  # fmt: skip
"""Title in the device summary (without the device type) → property of ``Device``, as a fraction."""

_OPERATOR_TIMES = ("device_self", "device_total", "host_self", "host_total")
PIES = ("device_self_time", "device_total_time", "host_self_time", "host_total_time")
OPENING = re.compile(
    rb'\{\s*"(steps|performance|device_total_time|device_self_time|host_total_time|metadata|total)"\s*:'
)
"""The beginning of a document, for those longer than the head a sniffer sees."""


def view_of(document: object) -> str | None:
    """overview, operator_pie, operator_table, kernel_table or kernel_pie; None for anything else."""
    if not isinstance(document, dict) or "traceEvents" in document:
        return None
    data = document.get("data")
    if isinstance(document.get("performance"), list) or ("steps" in document and _rows(document["steps"])):
        return "overview"
    if any(_rows(document.get(pie)) for pie in PIES):
        return "operator_pie"
    if isinstance(data, list) and data and all(isinstance(op, dict) and "calls" in op and "name" in op for op in data):
        return "operator_table"
    if isinstance(data, dict) and {"Name", "Total Duration (us)"} <= set(_titles(data)):
        return "kernel_table"
    if isinstance(total := document.get("total"), dict) and _titles(total) == ["name", "value"]:
        return "kernel_pie"
    return None


def _titles(table: object) -> list[str]:
    columns = table.get("columns") if isinstance(table, dict) else None
    return [str(column.get("name")) for column in _dicts(columns)]


def _rows(table: object) -> list[list[Any]]:
    rows = table.get("rows") if isinstance(table, dict) else None
    return [row for row in rows if isinstance(row, list)] if isinstance(rows, list) else []


def _records(table: object) -> Iterator[dict[str, Any]]:
    """The rows of a table as dicts title → cell; tooltip columns are titled None and dropped."""
    titles = _titles(table)
    for row in _rows(table):
        yield {title: cell for title, cell in zip(titles, row, strict=False) if title != "None"}


def _dicts(value: object) -> Iterator[dict[str, Any]]:
    """The dicts in a list; nothing if ``value`` is not a list."""
    yield from (item for item in (value if isinstance(value, list) else ()) if isinstance(item, dict))


def _yes(value: object) -> bool | None:
    return {"yes": True, "no": False}.get(str(value).lower())


class _Worker(Struct):
    """The views of one worker, by kind of view, and what could not be read in them."""

    views: dict[str, Document] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)

    def _cell(self, view: str, row: Mapping[str, Any], column: str, kind: Kind, factor: float = 1) -> Any:
        value, reason = number(row.get(column), kind, factor)
        if reason is not None:
            self.faults.wrong(view, column, reason)
        return value

    def _ns(self, view: str, row: Mapping[str, Any], column: str) -> int | None:
        """A time in µs as ns."""
        time: int | None = self._cell(view, row, column, "total", 1000)
        return time

    def breakdown(self, steps: Steps) -> list[tuple[str | None, str, int]]:
        """(step, category, ns): first the mean per step (step None), then each step."""
        overview = self.views.get("overview", {})
        rows: list[tuple[str | None, str, int]] = []
        for total in _dicts(overview.get("performance")):
            for child in _dicts(total.get("children")):
                if (time := self._ns("performance", child, "value")) is not None:
                    rows.append((None, str(child.get("name")), time))
        for step, times in steps:
            rows += [(step, category, time) for category, time in times.items() if time is not None]
        return rows

    def steps(self) -> Steps:
        """(step name, category → ns) of each step."""
        table = self.views.get("overview", {}).get("steps")
        return [
            (
                str(record.pop("Step", at)),
                {name: self._ns("steps", record, name) for name in record},
            )
            for at, record in enumerate(_records(table))
        ]

    def operators(self) -> list[dict[str, Any]]:
        """Rows of ``operators``, from the operator table or, without one, from the pies."""
        table = self.views.get("operator_table")
        if table is None:
            return self._operators_from_pies()
        return [
            {
                "name": str(op["name"]), "calls": self._cell("operator_table", op, "calls", "count"),
                **{f"{time}_ns": self._ns("operator_table", op, f"{time}_duration") for time in _OPERATOR_TIMES},
                "tc_eligible": _yes(op.get("tc_eligible")),
                **{ratio: _fraction(op.get(ratio)) for ratio in ("tc_self_ratio", "tc_total_ratio")},
            }
            for op in table["data"]
        ]

    def _operators_from_pies(self) -> list[dict[str, Any]]:
        operators: dict[str, dict[str, Any]] = {}
        for pie in PIES:
            for record in _records(self.views.get("operator_pie", {}).get(pie)):
                name = str(record.get("name"))
                time = self._ns(pie, record, "value")
                operators.setdefault(name, {"name": name})[pie.replace("_time", "_ns")] = time
        return list(operators.values())

    def kernels(self) -> list[dict[str, Any]]:
        """Rows of ``kernel_stats``, from the kernel table or, without one, from the pie."""
        table = self.views.get("kernel_table")
        if table is None:
            pie = _records(self.views.get("kernel_pie", {}).get("total"))
            rows: list[dict[str, Any]] = [
                {"name": str(record.get("name")), "total_ns": self._ns("kernel_pie", record, "value")} for record in pie
            ]
        else:
            rows = [
                {
                    "name": str(record.get("Name")),
                    "count": self._cell("kernel_table", record, "Calls", "count"),
                    "mean_ns": self._cell("kernel_table", record, "Mean Duration (us)", "mean", 1000),
                    **{f"{what.lower()}_ns": self._ns("kernel_table", record, f"{what} Duration (us)")
                       for what in ("Total", "Min", "Max")},
                    "tensor_cores": _yes(record.get("Tensor Cores Used", record.get("Kernel Uses Tensor Cores"))),
                }
                for record in _records(table["data"])
            ]
        return [{**row, "kind": kernel_kind(row["name"])} for row in rows]

    def devices(self) -> tuple[Device, ...]:
        """The devices of the overview's device summary, with their name and gauges."""
        devices: list[Device] = []
        for key, summary in self.views.get("overview", {}).items():
            if not key.endswith("_metrics") or not isinstance(summary, dict):
                continue
            for entry in _dicts(summary.get("data")):
                title, value = str(entry.get("title", "")), str(entry.get("value", ""))
                if title.endswith(":") and not value:
                    devices.append(Device(title.removesuffix(":")))
                elif devices:
                    devices[-1] = _with_gauge(devices[-1], title, value)
        return tuple(devices)


def _fraction(value: object) -> float | None:
    """A ratio as a fraction; text is a percentage."""
    if not isinstance(value, str):
        return number(value)[0]
    return number(value.strip().removesuffix("%").rstrip() + "e-2")[0]  # by its digits: 9.18% is 0.0918


def _with_gauge(device: Device, title: str, value: str) -> Device:
    kind = device.id.split(" ")[0]
    gauge = GAUGES.get(title.removeprefix(f"{kind} "))
    if gauge:
        return Device(device.id, device.name, {**device.properties, gauge: _fraction(value)})
    if title == "Name":
        return Device(device.id, value, device.properties)
    return Device(device.id, device.name, {**device.properties, title: value})


def _documents(data: bytes) -> tuple[list[object], int]:
    """The JSON documents of a file, lists of documents flattened, and the number of lines that are not JSON."""
    documents: list[object] = []
    broken = 0
    for text in [data] if b"\n" not in data.strip() else data.split(b"\n"):
        if text.strip():
            try:
                documents.append(orjson.loads(text))
            except orjson.JSONDecodeError:
                broken += 1
    if broken and not any(map(view_of, documents)):
        try:  # a single document that spans several lines
            documents, broken = [orjson.loads(data)], 0
        except orjson.JSONDecodeError:
            return documents, broken
    return [inner for outer in documents for inner in (outer if isinstance(outer, list) else [outer])], broken


def _workers(documents: Iterable[object]) -> tuple[list[_Worker], int]:
    """Documents → workers in file order, and the number of documents that are not one of the five views."""
    workers = [_Worker()]
    unknown = 0
    for document in documents:
        view = view_of(document)
        if view is None or not isinstance(document, dict):
            unknown += 1
            continue
        if view in workers[-1].views:
            workers.append(_Worker())
        workers[-1].views[view] = document
    return [worker for worker in workers if worker.views], unknown


class TensorBoardViews(FormatLoader):
    """Loader for TensorBoard profiler view documents."""

    name = "tb-views"
    title = ("PyTorch TensorBoard profiler views: overview, operators and kernels of each worker, one JSON document "
             "per line")
    suffixes = (".jsonl", ".json")
    version = 5
    fills = ("cycles", "operators", "kernel_stats", "breakdown")

    def sniff(self, head: bytes) -> bool:
        """Accept a file whose first document is one of the five views."""
        start = head.lstrip()
        first, _, rest = start.partition(b"\n")
        try:
            document = orjson.loads(first)
            return view_of(document[0] if isinstance(document, list) and document else document) is not None
        except orjson.JSONDecodeError:
            pass
        if len(head) < HEAD_BYTES and rest:
            documents, _ = _documents(start)
            return bool(documents) and view_of(documents[0]) is not None
        marks = b'"device_self_duration"', b'"host_self_duration"', b'"Total Duration (us)"', b'"role": "tooltip"'
        return bool(OPENING.match(start)) and any(word in start for word in (*marks, b'"columns"'))

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace per worker, in file order."""
        data, fault = stream.read_all(job.path)
        documents, broken = _documents(data)
        workers, unknown = _workers(documents)
        if not workers:
            raise Unreadable(job.path, "has no view of the PyTorch TensorBoard profiler", "Give the view documents.")
        job.progress(len(data), len(data), len(documents))
        warnings = [fault] if fault else []
        if broken:
            warnings.append(f"{broken:,} lines are not JSON documents and were left out.")
        if unknown:
            warnings.append(f"{unknown:,} documents are of other views and were left out.")
        stem = job.path.name.split(".")[0]
        labels = [f"worker {at}" for at in range(len(workers))] if len(workers) > 1 else [stem]
        return tuple(
            _trace(worker, Info(str(job.path), label, self.name, "torch_tb_profiler", len(data)), warnings)
            for worker, label in zip(workers, labels, strict=True)
        )


def _trace(worker: _Worker, info: Info, warnings: list[str]) -> Trace:
    overview = worker.views.get("overview", {})
    advice = overview.get("recommendations")
    facts: dict[str, Any] = {
        "views": sorted(worker.views),
        "recommendations": _sentences(advice) if isinstance(advice, str) else [],
    }
    steps = worker.steps()
    breakdown = pl.DataFrame(
        worker.breakdown(steps), schema={"step": pl.String, "category": pl.String, "time_ns": pl.Int64}, orient="row"
    )
    operators, kernels = _table("operators", worker.operators()), _table("kernel_stats", worker.kernels())
    full = Info(
        info.source, info.label, info.format, info.tool, info.bytes, devices=worker.devices(),
        warnings=(*warnings, *worker.faults.warnings()), facts=facts,
    )  # fmt: skip
    return Trace(
        full, cycles=schema.conform("cycles", _cycles(steps).lazy()),
        breakdown=schema.conform("breakdown", breakdown.lazy()), operators=operators, kernel_stats=kernels,
    )


def _table(table: str, rows: list[dict[str, Any]]) -> pl.LazyFrame:
    dtypes = schema.polars_schema(table)
    plain = {name: pl.String() if dtype == schema.NAME else dtype for name, dtype in dtypes.items()}
    frame = pl.DataFrame(rows, schema=plain)
    return schema.conform(table, (_merged(frame) if frame["name"].is_duplicated().any() else frame).lazy())


def _merged(frame: pl.DataFrame) -> pl.DataFrame:
    """One row per name, for views that are also grouped by input shapes, grid or operator. Times and calls are summed,
    min and max kept, the mean recomputed; ratios of merged rows are null."""
    total = [name for name in frame.columns if name in ("calls", "count") or name.endswith(("self_ns", "total_ns"))]
    alone = pl.len() == 1
    sums = [
        pl.when(pl.col(name).null_count() == 0, pl.col(name).cast(pl.Float64).sum().abs() < LIMIT)
        .then(pl.col(name).sum()).alias(name) for name in total
    ]
    sums += [pl.col(name).any() for name in ("tc_eligible", "tensor_cores") if name in frame.columns]
    sums += [pl.when(alone).then(pl.col(name).first()).alias(name) for name in frame.columns if name.endswith("_ratio")]
    if "mean_ns" in frame.columns:
        known = [pl.col(name).null_count() == 0 for name in ("total_ns", "count")]
        mean = pl.when(alone).then(pl.col("mean_ns").first()).when(*known).then(
            pl.col("total_ns").sum() / pl.col("count").sum())
        sums += [mean.alias("mean_ns"), pl.col("min_ns").min(), pl.col("max_ns").max(), pl.col("kind").first()]
    return frame.group_by("name", maintain_order=True).agg(sums)


def _cycles(steps: Steps) -> pl.DataFrame:
    """The steps of the overview; a step's duration is the sum of its categories, which never overlap."""
    return pl.DataFrame(
        {
            "cycle": [int(step) if step.isdecimal() and len(step) < 18 else at for at, (step, _) in enumerate(steps)],
            "dur_ns": [_sum(times.values()) for _, times in steps],
            "label": [f"ProfilerStep#{step}" for step, _ in steps],
            "kind": ["step"] * len(steps),
            "source": ["recorded"] * len(steps),
            "complete": [True] * len(steps),
        },
        schema_overrides={"cycle": pl.Int64, "dur_ns": pl.Int64, "label": pl.String},
    )


def _sum(times: Collection[int | None]) -> int | None:
    """The sum of the times; None if one is unknown."""
    known = [time for time in times if time is not None]
    return sum(known) if len(known) == len(times) and abs(sum(known)) <= LIMIT else None


def _sentences(html: str) -> list[str]:
    """The plugin's recommendations as plain text, one entry per list item."""
    items = [re.sub(r"<[^>]*>", "", item).strip() for item in re.split(r"</?li>", html)]
    return [item for item in items if item and item != "N/A"]


LOADER = TensorBoardViews()
