"""Prometheus: the text exposition of exporters (DCGM's and any other), and the JSON response to a range query.

An exposition is one scrape or several in sequence; a line may end with its time in ms (OpenMetrics: in s), but
exporters seldom write one. The response of ``/api/v1/query_range`` has all times. A series becomes a counter of the
device in its labels; labels that distinguish the series of one counter and device stay in the name.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict

import msgspec
import polars as pl

from ..errors import Unreadable
from ..ingest import limits
from ..loader import Job
from ..recording.faults import Faults
from ..recording.quantities import MIXED
from ..recording.values import number, series
from ..schema_limits import LATEST_NS
from . import quantities
from .loader import CounterLoader
from .recording import COLUMNS, Reading

_LABEL = re.compile(r'([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_DEVICES = ("gpu", "gpu_id", "gpu_index", "gpuid", "minor_number", "index", "device")
_HOSTS = ("Hostname", "hostname", "host", "node", "instance", "exported_instance")
_PRODUCTS = ("modelName", "card_model", "gpu_model", "name", "product_name")
_NUMBERED = re.compile(r"^(?:gpu|nvidia|card|cuda:)?[ _]?(\d{1,4})$", re.I)
_ENDS = {"_bytes": "B", "_celsius": "C", "_watts": "W", "_hertz": "Hz", "_ratio": "ratio", "_percent": "%",
         "_joules": "J", "_seconds": "s"}  # fmt: skip


class SeriesNames:
    """Numbers the series added to it, and names them when all are known."""

    def __init__(self) -> None:
        self._series_labels: list[tuple[str, dict[str, str]]] = []
        self._written: dict[str, int] = {}
        self.products: dict[str, str] = {}

    def add(self, name: str, labels: dict[str, str]) -> int:
        """Add a new series; returns its number. Raises limits.Exceeded."""
        limits.check("names", len(self._series_labels) + 1, f"holds more than {len(self._series_labels):,} series")
        self._series_labels.append((name, labels))
        return len(self._series_labels) - 1

    def add_text(self, text: str) -> int:
        """The number of a series written as in an exposition, ``name{label="value"}``. Raises limits.Exceeded."""
        if text not in self._written:
            name, _, rest = text.partition("{")
            self._written[text] = self.add(name, dict(_LABEL.findall(rest)))
        return self._written[text]

    def table(self, units: dict[str, str]) -> pl.DataFrame:
        """``place metric device unit scale`` of every series; ``units`` are those of HELP and UNIT lines, by name."""
        hosts = {_first(labels, _HOSTS) for _, labels in self._series_labels}
        several = len(hosts - {None}) > 1
        devices = [_device(labels, several) for _, labels in self._series_labels]
        for device, (_, labels) in zip(devices, self._series_labels, strict=True):
            if device is not None and (product := _first(labels, _PRODUCTS)):
                self.products.setdefault(device, product)
        groups: dict[tuple[str, str | None], list[int]] = defaultdict(list)
        for place, ((name, _), device) in enumerate(zip(self._series_labels, devices, strict=True)):
            groups[name, device].append(place)
        metrics = [name for name, _ in self._series_labels]
        for (name, _), indices in groups.items():
            if len(indices) > 1:
                for place in indices:
                    metrics[place] = _with_labels(name, self._series_labels[place][1], self._differing(indices))
        measures = [_measure(name, units) for name, _ in self._series_labels]
        return pl.DataFrame(
            {"place": range(len(metrics)), "metric": metrics, "device": devices,
             "unit": [unit for unit, _ in measures], "scale": [scale for _, scale in measures]},
            schema={"place": pl.Int64, "metric": pl.String, "device": pl.String, "unit": pl.String,
                    "scale": pl.Float64},
        )

    def _differing(self, indices: list[int]) -> list[str]:
        """The labels whose values differ among these series."""
        values_of: dict[str, set[str | None]] = defaultdict(set)
        keys = {key for place in indices for key in self._series_labels[place][1]}
        for place in indices:
            for key in keys:
                values_of[key].add(self._series_labels[place][1].get(key))
        return sorted(key for key, values in values_of.items() if len(values) > 1)


def _first(labels: dict[str, str], keys: tuple[str, ...]) -> str | None:
    return next((labels[key] for key in keys if labels.get(key)), None)


def _device(labels: dict[str, str], several_hosts: bool) -> str | None:
    """'GPU 3', preceded by its host if there are several; None if no label names a device."""
    for key in _DEVICES:
        match = _NUMBERED.match(labels.get(key, ""))
        if match and (key != "device" or not labels[key].isdigit()):
            host = _first(labels, _HOSTS) if several_hosts else None
            return f"{host} GPU {int(match[1])}" if host else f"GPU {int(match[1])}"
    return None


def _with_labels(name: str, labels: dict[str, str], keys: list[str]) -> str:
    suffix = ",".join(f'{key}="{labels[key]}"' for key in keys if key in labels)
    return f"{name}{{{suffix}}}" if suffix else name


def _measure(name: str, units: dict[str, str]) -> tuple[str, float]:
    """Natural unit and factor: from DCGM's manual, else from the exposition, else from the ending of the name."""
    ending = name.removesuffix("_total")
    stated = quantities.dcgm_unit(name) or units.get(name) or next(
        (unit for end, unit in _ENDS.items() if ending.endswith(end)), "")
    return quantities.natural(stated) or ("", 1.0)


_LONGEST = 1 << 16  # Maximum characters of a line: labels are names, not long texts.
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
    """The loader of Prometheus expositions and query responses."""

    name = "prometheus"
    title = "Prometheus: an exporter's text (DCGM exporter), range queries as JSON (counters)"
    suffixes = (".prom", ".txt", ".json")
    version = 6
    holds_nothing = "holds no sample"

    def read(self, text: bytes, job: Job) -> Reading:
        """The samples of an exposition or a query response. Raises Unreadable if a response is damaged or too deep."""
        try:
            return (_of_answer if _is_answer(text) else _of_text)(text, job.path.name)
        except limits.Exceeded as error:
            raise error.unreadable(job.path) from None
        except (msgspec.DecodeError, RecursionError, ValueError):
            raise Unreadable(job.path, "is cut off or damaged", f"Save {_QUERY} again.") from None

    def advice_for(self, text: bytes) -> str:
        """A sentence that says what to save instead."""
        return f"Save {_QUERY if _is_answer(text) else _EXPOSITION}."


def _is_answer(text: bytes) -> bool:
    return text.lstrip()[:1] == b"{"


def _of_answer(text: bytes, table: str) -> Reading:
    answer = msgspec.json.decode(text, type=_Answer)
    names, indices, moments, values = SeriesNames(), list[int](), list[int | None](), list[str]()
    for one in answer.data.result:
        labels = dict(one.metric)
        place = names.add(labels.pop("__name__", "query"), labels)
        for at, value in [*one.values, *([one.value] if one.value is not None else [])]:
            indices.append(place)
            moments.append(_moment(at))
            values.append(value)
    reading = _reading(names, indices, moments, values, {}, table)
    reading.warnings += [f"Prometheus warns: {warning}" for warning in answer.warnings[:5]]
    return reading


def _moment(seconds: float) -> int | None:
    """Seconds to ns. Prometheus has millisecond resolution; a float of seconds is exact to microseconds."""
    return round(seconds * 1e6) * 1000 if math.isfinite(seconds) and abs(seconds) * 1e9 < LATEST_NS else None


def _number(text: str) -> float | None:
    value, _ = number(text)
    return value


def _of_text(text: bytes, table: str) -> Reading:
    names, indices, moments, values = SeriesNames(), list[int](), list[int | None](), list[str]()
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
        indices.append(names.add_text(sample[0]))
        values.append(sample[1])
        moments.append(sample[2])
    reading = _reading(names, indices, moments, values, units, table)
    reading.untimed = "the exporter wrote no timestamps: samples are shown in file order (a range query has times)"
    if stray:
        reading.warnings.append(f"{stray:,} lines that are not samples were left out.")
    return reading


def _note(line: str, units: dict[str, str]) -> None:
    """Take the unit of a counter from its HELP or UNIT line."""
    words = line.split(None, 3)
    if len(words) == 4 and words[1] == "HELP" and (match := _UNIT.search(words[3])):
        units.setdefault(words[2], match[1])
    elif len(words) == 4 and words[1] == "UNIT":
        units[words[2]] = words[3].strip()


def _sample(line: str) -> tuple[str, str, int | None] | None:
    """Series as written, value, and time (ns) of a line; None if it is not a sample."""
    line = line.split(" # {", 1)[0]  # an exemplar
    end = line.rfind("}") + 1
    if not end:
        end = line.find(" ")
    name, rest = line[:end], line[end:].split()
    if end <= 0 or not 1 <= len(rest) <= 2 or not (name[0].isalpha() or name[0] in "_:"):
        return None
    value = _number(rest[0])
    if value is None and rest[0].lower().lstrip("+-") not in ("nan", "inf", "infinity"):
        return None
    if len(rest) == 1:
        return name, rest[0], None
    at = _number(rest[1])
    if at is None:
        return None
    return name, rest[0], _moment(at if "." in rest[1] or abs(at) < 1e11 else at / 1e3)


def _reading(
    names: SeriesNames, indices: list[int], moments: list[int | None], values: list[str], units: dict[str, str],
    table: str,
) -> Reading:
    """The samples of numbered series, in ``COLUMNS``."""
    described = names.table(units)
    frame = pl.DataFrame(
        {"place": indices, "ts_ns": moments}, schema={"place": pl.Int64, "ts_ns": pl.Int64},
    ).join(described, on="place", how="left", maintain_order="left")
    faults = Faults()
    recorded = series("value", values, "real", faults, table)
    samples = frame.select(
        "ts_ns", "metric", "device", value=quantities.measured(recorded) * pl.col("scale"), unit=pl.col("unit"),
        pid=pl.lit(None, pl.Int64), kind=pl.lit(None, pl.String),
    ).select(list(COLUMNS))
    timed = frame["ts_ns"].is_not_null().any()
    samples, notes = _told_apart(samples)
    devices = {str(name): names.products.get(str(name)) for name in described["device"].drop_nulls().unique()}
    return Reading(samples, "utc" if timed else None, "Prometheus", dict(sorted(devices.items())), notes, faults=faults)


def _told_apart(samples: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The samples without exact repeats; those of series that no label tells apart, with several values at one time,
    are ``mixed``: nothing may be averaged. And the sentences that say so."""
    series_of = ["metric", "device"]
    known = pl.col("ts_ns").is_not_null() & pl.col("value").is_not_null()
    kept = samples.filter(~known | pl.struct(*series_of, "ts_ns", "value").is_first_distinct())
    notes = []
    if repeats := samples.height - kept.height:
        notes.append(f"{repeats:,} {'sample is' if repeats == 1 else 'samples are'} recorded twice; counted once")
    mixed = kept.filter(known & pl.struct(*series_of, "ts_ns").is_duplicated()).select(series_of).unique()
    if mixed.height:
        names = ", ".join(sorted(set(mixed["metric"].to_list()))[:6])
        notes.append(f"series of {names} have several values at one time and no label that tells them apart, so they "
                     "have no mean")
        kept = kept.join(mixed.with_columns(_mixed=pl.lit(MIXED)), on=series_of, how="left", nulls_equal=True,
                         maintain_order="left").with_columns(kind=pl.coalesce("kind", "_mixed")).drop("_mixed")
    return kept, notes


LOADER = Prometheus()
