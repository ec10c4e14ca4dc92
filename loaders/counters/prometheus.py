"""Prometheus: what an exporter shows (DCGM's and any other), and the answer to a range query as JSON.

An exposition is one scrape or many one after the other; a line may end with its time in ms (OpenMetrics: in s), but
exporters seldom write one. The answer of ``/api/v1/query_range`` has all times. A series becomes a counter of the
device its labels name; labels in which the series of one counter and device differ stay in the name.
"""

from __future__ import annotations

import math
import re

import msgspec
import polars as pl

from ..errors import Unreadable
from ..ingest import limits
from ..loader import Job
from ..schema_limits import LATEST_NS
from . import quantities, series
from .loader import CounterLoader
from .recording import COLUMNS, Reading

_LONGEST = 1 << 16
"""Characters of a line: labels are names, not texts."""
_EXPOSITION, _QUERY = "the text an exporter shows at /metrics", "the answer of /api/v1/query_range"
_UNIT = re.compile(r"\(in ([^()]{1,12})\)")


class _Series(msgspec.Struct):
    metric: dict[str, str] = {}
    values: list[tuple[float, str]] = []
    value: tuple[float, str] | None = None


class _Data(msgspec.Struct):
    result: list[_Series] = []


class _Answer(msgspec.Struct):
    data: _Data = msgspec.field(default_factory=_Data)
    warnings: list[str] = []


class Prometheus(CounterLoader):
    """The loader of Prometheus' text and of its answers."""

    name = "prometheus"
    title = "Prometheus: an exporter's text (DCGM exporter), range queries as JSON (counters)"
    suffixes = (".prom", ".txt", ".json")
    version = 2
    holds_nothing = "holds no sample"

    def read(self, text: bytes, job: Job) -> Reading:
        """The series of an exposition or of an answer. Raises Unreadable where an answer is damaged or too deep."""
        try:
            return _of_answer(text) if _is_answer(text) else _of_text(text)
        except limits.Exceeded as error:
            raise error.unreadable(job.path) from None
        except (msgspec.DecodeError, RecursionError, ValueError):
            raise Unreadable(job.path, "is cut off or damaged", f"Save {_QUERY} again.") from None

    def advice_for(self, text: bytes) -> str:
        """What to save instead."""
        return f"Save {_QUERY if _is_answer(text) else _EXPOSITION}."


def _is_answer(text: bytes) -> bool:
    return text.lstrip()[:1] == b"{"


def _of_answer(text: bytes) -> Reading:
    answer = msgspec.json.decode(text, type=_Answer)
    names, indices, moments, values = series.Names(), [], [], []
    for one in answer.data.result:
        labels = dict(one.metric)
        place = names.add(labels.pop("__name__", "query"), labels)
        for at, value in [*one.values, *([one.value] if one.value is not None else [])]:
            indices.append(place)
            moments.append(_moment(at))
            values.append(_number(value))
    reading = _reading(names, indices, moments, values, {})
    reading.warnings += [f"Prometheus said: {said}" for said in answer.warnings[:5]]
    return reading


def _moment(seconds: float) -> int | None:
    """Prometheus counts milliseconds; a float of seconds holds microseconds exactly enough."""
    return round(seconds * 1e6) * 1000 if math.isfinite(seconds) and abs(seconds) * 1e9 < LATEST_NS else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _of_text(text: bytes) -> Reading:
    names, indices, moments, values = series.Names(), [], [], []
    units: dict[str, str] = {}
    stray = 0
    for line in text.decode("utf-8", "replace").split("\n"):
        if line.startswith("#"):
            _note(line, units)
            continue
        if not (line := line.strip()):
            continue
        sample = _sample(line) if len(line) <= _LONGEST else None
        if sample is None:
            stray += 1
            continue
        indices.append(names.written(sample[0]))
        values.append(_number(sample[1]))
        moments.append(sample[2])
    reading = _reading(names, indices, moments, values, units)
    reading.untimed = "the exporter wrote no times: samples are shown in their order (a range query has times)"
    if stray:
        reading.warnings.append(f"{stray:,} lines are no samples and were left out.")
    return reading


def _note(line: str, units: dict[str, str]) -> None:
    """Take the unit of a counter from its HELP or UNIT line."""
    words = line.split(None, 3)
    if len(words) == 4 and words[1] == "HELP" and (match := _UNIT.search(words[3])):
        units.setdefault(words[2], match[1])
    elif len(words) == 4 and words[1] == "UNIT":
        units[words[2]] = words[3].strip()


def _sample(line: str) -> tuple[str, str, int | None] | None:
    """Series as written, value and time (ns) of a line; None where it is no sample."""
    line = line.split(" # {", 1)[0]  # an exemplar
    end = line.rfind("}") + 1
    if not end:
        end = line.find(" ")
    name, rest = line[:end], line[end:].split()
    if end <= 0 or not 1 <= len(rest) <= 2 or not (name[0].isalpha() or name[0] in "_:"):
        return None
    value = _number(rest[0])
    if value is None and rest[0].lower().lstrip("+-") not in ("nan", "inf"):
        return None
    if len(rest) == 1:
        return name, rest[0], None
    at = _number(rest[1])
    if at is None:
        return None
    return name, rest[0], _moment(at if "." in rest[1] or abs(at) < 1e11 else at / 1e3)


def _reading(
    names: series.Names, indices: list[int], moments: list[int | None], values: list[float | None],
    units: dict[str, str],
) -> Reading:
    """Samples of numbered series in ``COLUMNS``."""
    described = names.told(units)
    frame = pl.DataFrame(
        {"place": indices, "ts_ns": moments, "raw": values},
        schema={"place": pl.Int64, "ts_ns": pl.Int64, "raw": pl.Float64},
    ).join(described, on="place", how="left", maintain_order="left")
    samples = frame.select(
        "ts_ns", "metric", "device", value=quantities.measured(pl.col("raw")) * pl.col("scale"), unit=pl.col("unit"),
        pid=pl.lit(None, pl.Int64),
    ).select(list(COLUMNS))
    timed = frame["ts_ns"].is_not_null().any()
    devices = {str(name): names.products.get(str(name)) for name in described["device"].drop_nulls().unique()}
    return Reading(samples, "utc" if timed else None, "Prometheus", dict(sorted(devices.items())))


LOADER = Prometheus()
