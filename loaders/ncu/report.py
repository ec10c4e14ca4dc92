"""Nsight Compute reports (``.ncu-rep``), read with the library that NVIDIA publishes for them (``ncu-report``).

The library is the optional extra ``ncu`` and is imported only here. It is native code not hardened against malicious
files, so it runs only in the ingest process, which may crash without harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl

from ..errors import Unreadable
from ..loader import FormatLoader, Job
from ..trace import Trace
from . import metrics as ncu_metrics
from .csv_pages import NcuRecords, trace_of

MAGIC = b"NVR\0"
INSTALL = ("Install it (`pip install 'warplens[ncu]'`), or print the report with "
           "`ncu --import FILE --csv --page raw` and open that.")
_AXES = ("x", "y", "z")
_SCOPES: dict[Any, str] = {1: "local", 2: "global"}


class NcuReport(FormatLoader):
    """The loader of Nsight Compute's reports."""

    name = "ncu-rep"
    title = "Nsight Compute report, with NVIDIA's library for it (the extra ncu)"
    suffixes = (".ncu-rep",)
    version = 2
    fills = ("kernels", "launch_metrics", "launch_rules")
    named = (".ncu-rep", ".ncu-repz")

    def sniff(self, head: bytes) -> bool:
        """The magic number in the first four bytes."""
        return head.startswith(MAGIC)

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``kernels`` in launch order. Raises Unreadable without the library, or without a result."""
        launches: list[tuple[object, ...]] = []
        samples: list[tuple[object, ...]] = []
        rules: list[tuple[object, ...]] = []
        records = NcuRecords()
        for number, action in enumerate(_actions(job.path)):
            with _sound(job.path):
                launches.append(_launch(number, action))
                for name in sorted(map(_text, action.metric_names())):
                    metric = action.metric_by_name(name)
                    if metric is not None and metric.value() is not None:
                        unit, value = _text(metric.unit() or "") or None, metric.value()
                        shown = _text(value) if isinstance(value, str) else repr(value)
                        samples.append((0, None, number, None, name, unit, shown))
                rules += [(0, None, number, *_rule(rule)) for rule in action.rule_results_as_dicts()]
            job.progress(0, 0, number + 1)
        if not launches:
            raise Unreadable(job.path, "is an Nsight Compute report without a result, or a damaged one", INSTALL)
        records.launches.append(pl.DataFrame(launches, schema=ncu_metrics.LAUNCH, orient="row"))
        records.samples.append(pl.DataFrame(samples, schema=ncu_metrics.SAMPLE, orient="row"))
        records.rules.append(pl.DataFrame(rules, schema=ncu_metrics.RULE, orient="row"))
        return (trace_of(job.path, self.name, records, job.path.stat().st_size, None),)


def _actions(path: Path) -> Iterator[Any]:
    """The results (actions) of a report, one per launch. Raises Unreadable if they cannot be read."""
    try:
        library = import_module("ncu_report")
    except ImportError:
        raise Unreadable(
            path, "is an Nsight Compute report, and NVIDIA's library for these is not installed", INSTALL
        ) from None
    with _sound(path):
        report = library.load_report(str(path))
        for part in range(report.num_ranges()):
            results = report.range_by_idx(part)
            for number in range(results.num_actions()):
                yield results.action_by_idx(number)


@contextmanager
def _sound(path: Path) -> Iterator[None]:
    """Turns any exception of NVIDIA's library, as raised for damaged reports, into Unreadable."""
    try:
        yield
    except (OSError, Unreadable):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise Unreadable(path, f"cannot be read by NVIDIA's library ({reason})", INSTALL) from None


def _text(metrics: object) -> str:
    """A text of the library, with invalid Unicode replaced."""
    return str(metrics).encode("utf-8", "replace").decode()


def _value(action: Any, name: str) -> Any:
    metric = action.metric_by_name(name)
    return None if metric is None else metric.value()


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and -(1 << 62) < value < 1 << 62 else None


def _size(action: Any, what: str) -> str | None:
    sides = [_whole(_value(action, f"launch__{what}_dim_{axis}")) for axis in _AXES]
    return None if None in sides else ",".join(map(str, sides))


def _launch(number: int, action: Any) -> tuple[object, ...]:
    """A row of ``metrics.LAUNCH``."""
    device = _whole(_value(action, "launch__device_id"))
    major, minor = (_whole(_value(action, f"device__attribute_compute_capability_{digit}")) for digit in (
        "major", "minor"))
    return (
        0, None, number, _text(action.name()), _size(action, "grid"), _size(action, "block"),
        None if device is None else f"GPU {device}", _whole(_value(action, "launch__stream_id")),
        None if major is None or minor is None else f"{major}.{minor}",
    )


def _rule(rule: dict[str, Any]) -> tuple[object, ...]:
    """A rule result in the columns of ``metrics.RULE`` after the key. The library does not give OPT, WRN or INF."""
    message, gain = rule.get("rule_message") or {}, rule.get("speedup_estimation") or {}
    text = f"{message.get('title', '')}: {message.get('message', '')}".strip(": ")
    for focus in rule.get("focus_metrics", ()):
        text += f" [{focus.get('name')} = {focus.get('value')}: {focus.get('info', '')}]"
    section, name = (_text(rule.get(key) or "") or None for key in ("section_identifier", "name"))
    speedup = gain.get("speedup")
    return section, name, None, _text(text), None if speedup is None else repr(speedup), _SCOPES.get(gain.get("type"))


LOADER = NcuReport()
