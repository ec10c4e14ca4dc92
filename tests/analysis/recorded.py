"""Recorded cycle profiles read plainly, so that the comparison's tests do not depend on any loader."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl

from warplens.loaders import schema
from warplens.loaders.trace import Info, Trace


def run_of(rows: list[dict[str, object]], label: str = "run") -> Trace:
    """A Trace whose profile holds these rows."""
    frame = pl.DataFrame(rows, schema={k: v for k, v in schema.polars_schema("profile").items() if k in rows[0]})
    return Trace(Info(label, label, "made up"), profile=schema.conform("profile", frame.lazy()))


def read_profile(path: Path) -> list[dict[str, object]]:
    """The rows of a result_perf_data.csv in the columns of the profile table."""
    with path.open() as file:
        raw = list(csv.DictReader(file))
    return [
        {
            "cycle": int(r["cycle"]), "cycle_ns": round(float(r["anchor_dur_us"]) * 1e3), "anchor": r["anchor_name"],
            "cycle_start_ns": round(float(r["cycle_start_ts"]) * 1e3), "pid": int(r["pid"]),
            "function": r["function_name"], "kind": r["func_type"],
            "metric": None if r["metric_name"] == "N/A" else r["metric_name"], "device": r["device"],
            "beta": float(r["beta_pct"]), "mu": number(r["mu_pct"]), "sigma": number(r["sigma_pct"]),
            "dur_ns": round(float(r["duration"]) * 1e3), "instances": int(float(r["instances_count"])),
        }
        for r in raw
    ]


def number(text: str) -> float | None:
    """A number, None for what the recorder could not measure."""
    try:
        return float(text)
    except ValueError:
        return None
