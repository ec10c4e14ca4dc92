"""What communicates in a recording: by its record, by the settings, by name, or by the shape of a whole stream.

The four are asked in this order (``kernels.by`` says which answered). A loader gives a kernel its kind by name;
``summary`` looks once at all kernels, when the tables are written, and ``recognised`` lays the result over them when
they are read, so that the settings may change without reading the recording again.

By shape: where nothing on a device with several streams communicates by record, setting or name, a stream of few, long
kernels of few blocks beside a busier one is taken for communication. It is always a whole stream and never the busiest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from .collective_names import Patterns, of_settings
from .trace import RECOGNITION, Trace

if TYPE_CHECKING:
    import polars as pl

MOST_BLOCKS, LEAST_NS = 32, 10_000
"""Lower medians of a stream's kernels: most blocks (of those with a recorded grid), least duration in ns."""
_STREAM = ("rank", "device", "stream")
_TIMED = ["start_ns", "dur_ns", "stream"]


def recognised(trace: Trace) -> Trace:
    """The trace with ``kind`` and ``by`` of its kernels set. Raises BadPattern for invalid settings."""
    import polars as pl

    from . import schema

    if trace.kernels is schema.empty("kernels"):
        return trace
    patterns = of_settings()
    known = trace.info.facts.get(RECOGNITION)
    if known is None or patterns:
        known = summary(trace, patterns)
        trace = replace(trace, info=replace(trace.info, facts={**trace.info.facts, RECOGNITION: known}))
    kind, name = pl.col("kind"), pl.col("name").cast(pl.String)
    labelled = pl.col("collective").is_not_null() | (pl.col("by").cast(pl.String) == "record").fill_null(False)
    runs = kind.is_in(["kernel", "collective"])
    talks = kind == "collective"
    by: pl.Expr = pl.when(talks).then(pl.lit("name"))
    if known["shapes"]:
        shape = pl.any_horizontal(_is(place) for place in known["shapes"]) & (kind == "kernel")
        talks, by = talks | shape, pl.when(shape).then(pl.lit("shape")).otherwise(by)
    for reason, names in (("setting", known["set"]), (None, known["unset"])):
        if names:
            some = name.is_in(names) & runs & ~labelled
            talks = talks & ~some if reason is None else talks | some
            by = pl.when(some).then(pl.lit(reason, pl.String)).otherwise(by)
    if known["unlabelled"]:
        talks = talks | (labelled & runs)
    by = pl.when(labelled & runs).then(pl.lit("record")).otherwise(by)
    changed = any(known[part] for part in ("shapes", "set", "unset", "unlabelled"))
    if changed:
        talking = pl.when(talks).then(pl.lit("collective")).when(kind == "collective").then(pl.lit("kernel"))
        kind = talking.otherwise(kind.cast(pl.String)).cast(schema.NAME)
    columns = {"by": pl.coalesce(pl.col("by").cast(pl.String), by).cast(schema.NAME)}
    return trace.with_tables(kernels=trace.kernels.with_columns(**columns, **({"kind": kind} if changed else {})))


def _is(place: list[Any]) -> pl.Expr:
    import polars as pl

    rank, device, stream = place
    own = pl.col("rank").is_null() if rank is None else pl.col("rank") == rank
    where = pl.col("device").is_null() if device is None else pl.col("device") == device
    same: pl.Expr = own & where & (pl.col("stream") == stream)
    return same.fill_null(False)


def summary(trace: Trace, patterns: Patterns) -> dict[str, Any]:
    """What ``recognised`` needs to know of all kernels: ``shapes`` (rank, device and stream of those that communicate
    by shape), the names ``set`` and ``unset`` by the settings, those ``fused``, and whether kernels ``unlabelled`` by
    their name are recorded as collectives."""
    import polars as pl

    kernels = trace.kernels.filter(pl.col("kind").is_in(["kernel", "collective"]))
    own = pl.col("by").is_null()  # else its reader knows by what
    recorded, timed = pl.col("collective").is_not_null(), pl.all_horizontal(pl.col(_TIMED).is_not_null())
    # grouped by codes, and texts only of the few groups: 0.08 s and 70 MB less for 222,000 activities
    places = kernels.group_by(*_STREAM, "name").agg(
        talks=((pl.col("kind") == "collective") & own).any(),
        labelled=(recorded & (pl.col("kind") == "kernel") & own).any(), timed=timed.sum(),
        told=((recorded | ~own | pl.col("op_type").is_not_null()) & timed).any(),  # Ascend has types
    ).collect(engine="streaming").with_columns(pl.col("name", "device").cast(pl.String))
    named = places.group_by("name").agg(pl.col("talks", "labelled").any()).drop_nulls("name").sort("name")
    reasons = {name: patterns.reason(name) for name in named["name"]}
    talking = set(named.filter("talks")["name"])
    fused = [name for name, reason in reasons.items() if reason == "fused"]
    chosen = [name for name, reason in reasons.items() if reason == "setting"]
    dropped = [name for name in talking if patterns.takes_out(name)]
    known = [*(talking - set(dropped)), *chosen]
    return {"shapes": _shapes(kernels, places, known), "set": chosen, "unset": sorted(dropped), "fused": fused,
            "unlabelled": bool(named["labelled"].any())}


def _shapes(kernels: pl.LazyFrame, places: pl.DataFrame, names: list[str]) -> list[list[Any]]:
    """Rank, device and stream of the streams that communicate by shape; ``places``: activities by stream and name."""
    import polars as pl

    talks = pl.col("told") | pl.col("name").is_in(names).fill_null(False)
    streams = places.filter(pl.col("timed") > 0).group_by(_STREAM).agg(
        pl.col("timed").sum().alias("len"), talks=talks.any())
    device = _STREAM[:2]
    silent = streams.filter(~pl.col("talks").any().over(device), pl.len().over(device) > 1)
    few = silent.filter(pl.col("len") < pl.col("len").max().over(device))
    if few.is_empty():
        return []
    timed = kernels.drop_nulls(_TIMED).with_columns(pl.col("device").cast(pl.String))
    grids = timed.select(pl.col("grid").cast(pl.String)).unique().collect(engine="streaming")["grid"].drop_nulls()
    blocks = pl.DataFrame({"grid": grids, "blocks": [_product(grid) for grid in grids]},
                          schema={"grid": pl.String, "blocks": pl.Int64})
    of_few = timed.join(few.lazy().select(_STREAM), on=_STREAM, how="semi", nulls_equal=True)
    sized = of_few.select(*_STREAM, "dur_ns", pl.col("grid").cast(pl.String)).join(blocks.lazy(), on="grid", how="left")
    some = sized.group_by(_STREAM).agg(
        blocks=pl.col("blocks").filter(pl.col("blocks") > 0).quantile(0.5, "lower"),
        dur=pl.col("dur_ns").quantile(0.5, "lower"),
    ).filter(pl.col("blocks") <= MOST_BLOCKS, pl.col("dur") >= LEAST_NS).sort(_STREAM).collect(engine="streaming")
    return [list(row) for row in some.select(_STREAM).rows()]


def _product(grid: str) -> int | None:
    blocks = 1
    for part in grid.split(","):
        if not part.strip().isdigit():
            return None
        blocks *= int(part)
    return blocks if blocks < 1 << 62 else None
