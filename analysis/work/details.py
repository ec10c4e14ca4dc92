"""The details of a roofline row, shown on Enter: the formula with its numbers, the peaks, kernels and callers."""

from __future__ import annotations

from functools import partial
from typing import Any

import polars as pl

from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..contract.options import Options
from ..contract.sections import MOST, Section
from ..core import units
from ..core.callers import callers_of
from ..core.names.short_name import fit_name, short_name
from ..core.text import display
from .attribution import Signature
from .operators import entry
from .roofline import Roofline, alike, roofline_of


def sections(row: dict[str, Any], runs: tuple[Trace, ...], options: Options) -> list[Section]:
    """The sections of a row, of one run or two."""
    result = []
    for side, run in zip("AB", runs, strict=False):
        roofline = roofline_of(run)
        if roofline is None:
            continue
        tail = f" · {side}" if len(runs) > 1 else ""
        same = [
            at for at, one in enumerate(roofline.attribution.signatures)
            if (one.name, one.shapes, one.dtype) == (row["op"], row["shapes"], row["dtype"])
            and row["inputs"] in (None, one.inputs)
        ]
        if same:
            one = roofline.attribution.signatures[same[0]]
            result += [*_formula(one, tail), *_peak(roofline, one, _device(run, row["device"]), tail)]
            result += _launched(run, roofline, same, tail)
    return result


def _formula(one: Signature, tail: str) -> list[Section]:
    rows = [("shapes", display(one.shapes or "not recorded")), ("types", display(one.types or "not recorded"))]
    rows += [("values", display(one.inputs))] if one.inputs else []
    formula = entry(one.name)
    if one.work is None or formula is None:
        why = "these shapes contradict the operator" if one.contradicts else (
            "the operator is not in the table" if formula is None else
            "it depends on values that the recorded arguments do not give")
        return [Section(f"Work{tail}", (*rows, ("not known", why)))]
    rows += [
        ("FLOPs", f"{formula.formula} = {one.work.flops:,}"),
        ("with", ", ".join(f"{letter} = {value:,}" for letter, value in one.work.terms)),
        ("bytes", f"{one.work.bytes:,}: {formula.doubt or 'each input and the output once'}"),
        ("argument order from", formula.source),
    ]
    return [Section(f"Work of one call{tail}", tuple(rows))]


def _device(run: Trace, shown: str | None) -> str | None:
    """The device of a row, or the first of several alike."""
    return next((device for device, name in alike(run).items() if name == shown), shown)


def _peak(roofline: Roofline, one: Signature, device: str | None, tail: str) -> list[Section]:
    peak = roofline.peaks.get(device or "")
    if peak is None or one.work is None:
        return []
    rate = peak.flops_per_s(one.dtype, one.work.matrix)
    kind = (one.dtype or "") if one.work.matrix else "fp64" if one.dtype == "fp64" else "fp32, not a product"
    rows = [("device", peak.model), ("FLOP/s", f"{rate / 1e12:,.4g} TFLOP/s ({kind})" if rate else "not known")]
    rows += [("memory", units.rate(peak.bytes_per_s))] if peak.bytes_per_s else []
    rows += [("source", peak.source), *([("doubt", peak.doubt)] if peak.doubt else [])]
    return [Section(f"Peak{tail}{' (claimed)' if peak.claimed else ''}", tuple(rows))]


def _launched(run: Trace, roofline: Roofline, signatures: list[int], tail: str) -> list[Section]:
    """The kernels of these calls, and the Python lines (else modules) they came from, most time first."""
    callers = callers_of(run)
    if callers is None:
        return []
    place = pl.coalesce(pl.col("frame", "module").cast(pl.String)).alias("where")
    rows = pl.concat([
        run.kernels.select(pl.col("name").cast(pl.String)).collect(engine="streaming"),
        roofline.activities.select("signature", "dur_ns", "kind"), callers.frame.select(place),
    ], how="horizontal").filter(pl.col("signature").is_in(signatures), is_work())
    result = []
    titles = ("Kernels", "name", partial(fit_name, width=60)), ("Called from", "where", short_name)
    for title, column, shorten in titles:
        sums = rows.drop_nulls(column).group_by(column).agg(pl.len(), pl.col("dur_ns").sum()).sort(
            "dur_ns", column, descending=[True, False]).head(MOST)
        lines = tuple((shorten(text), units.count(count), units.duration(ns)) for text, count, ns in sums.rows())
        if lines:
            header = "kernel" if column == "name" else "from"
            result.append(Section(f"{title}{tail}", lines, (header, "count", "total")))
    return result
