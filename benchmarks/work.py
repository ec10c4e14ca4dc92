"""Share of device time with known work: ``python benchmarks/work.py DATA``.

It writes the table of benchmarks/results/roofline.md.

DATA holds ``traces/kineto`` and ``traces/tracelens_golden``, TraceLens's published tables of some of the recordings.
TraceLens's share is the kernel time of its rows with FLOPs or bytes over that of all its rows.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from warplens.analysis.work.roofline import Roofline, roofline_of
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace

PAGE = Path(__file__).parents[1] / "docs" / "roofline.md"
MARKS = re.compile(r"(<!-- begin covered -->\n).*?(<!-- end covered -->)", re.DOTALL)
HEAD = "| recording | device | covered | TraceLens | most of the rest |\n|---|---|---:|---:|---|\n"


def recordings(folder: Path) -> Iterator[Path]:
    """Every trace except graph captures, which are joined with the trace beside them."""
    for path in sorted(folder.rglob("*.json*")):
        if "capture_traces" not in path.parts:
            yield path


def covered(found: Roofline) -> tuple[float | None, str]:
    """The share, and the operators with most of the remaining time."""
    known = found.activities.filter("launched", pl.col("kind") != "collective")
    names = pl.Series([one.name for one in found.attribution.signatures], dtype=pl.String)
    rest = known.filter(pl.col("flops").is_null(), pl.col("signature") >= 0)
    total = int(known["dur_ns"].sum()) or 1
    spent = rest.with_columns(name=names.gather(rest["signature"])).group_by("name").agg(
        pl.col("dur_ns").sum()).sort("dur_ns", "name", descending=[True, False])
    said = [f"`{name}` {took / total:.1%}" for name, took in spent.head(3).rows() if took >= 0.01 * total]
    return found.covered, ", ".join(said)


def tracelens(golden: Path) -> float | None:
    """TraceLens's share in one published table."""
    if not golden.exists():
        return None
    csv.field_size_limit(10**9)
    known = every = 0.0
    for row in csv.DictReader(golden.read_text(encoding="utf-8").splitlines()):
        took = float(row["Kernel Time (µs)_sum"] or 0)
        every += took
        known += took if row["GFLOPS"] not in ("", "0.0") or row.get("Data Moved (MB)") not in (None, "", "0.0") else 0
    return known / every if every else None


def line(data: Path, path: Path) -> str | None:
    """The row of one recording; None without shapes or device work."""
    try:
        run: Trace = open_run(path)[0]
    except Unreadable:
        return None
    if not (run.has("kernels") and run.has("host.shapes")):
        return None
    found = roofline_of(run)
    share, rest = covered(found) if found is not None else (None, "")
    if share is None or found is None or not found.rows.height:
        return None
    name = path.relative_to(data / "traces" / "kineto")
    golden = data / "traces" / "tracelens_golden" / Path(*name.parts[1:]).parent / f"{path.name.split('.json')[0]}.csv"
    theirs = tracelens(golden) if name.parts[0] == "tracelens" else None
    device = next((one.name for one in run.info.devices if one.name), None) or "not named"
    return f"| {name} | {device} | {share:.1%} | {'' if theirs is None else f'{theirs:.1%}'} | {rest} |\n"


def main(data: Path) -> None:
    """Write the table into benchmarks/results/roofline.md."""
    rows = [made for path in recordings(data / "traces" / "kineto") if (made := line(data, path))]
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(MARKS.sub(lambda found: f"{found[1]}{HEAD}{''.join(rows)}{found[2]}", text), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
