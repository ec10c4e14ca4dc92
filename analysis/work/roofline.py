"""The roofline of operators: achieved rates, peaks, least time and time lost.

The least time of a call is the larger of FLOPs / peak FLOP/s and bytes / peak memory bandwidth; the time its activities
took above that is lost. Work above a peak loses nothing. No peak applies to a copy to the host or another device: it is
limited by its link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.schema import NAME, is_work
from ...loaders.trace import Trace
from ..contract.column import ABOVE_PEAK
from ..contract.options import Options, Side
from ..core.batches import TextColumn
from ..core.callers import callers_of, capture_facts
from ..core.copies import over_link
from ..core.device_pairs import LINK as OVER_LINK
from ..cycles.assignment import in_cycles
from ..cycles.detection import Cycles
from ..cycles.whole import whole_cycles
from .attribution import Attribution, attribution_of
from .peaks import BadPeaks, DevicePeak, peak_of

COMPUTE, MEMORY, LINK = "compute", "memory", "link"
KEYS = ("op", "shapes", "dtype", "device", "inputs")
_SIGNATURE = {
    "signature": pl.Int64(), "op": pl.String(), "shapes": pl.String(), "inputs": pl.String(), "dtype": pl.String(),
    "flops": pl.Int64(), "bytes": pl.Int64(), "matrix": pl.Boolean(), "contradicts": pl.Boolean(),
}


class Roofline(Struct, frozen=True):
    """``activities`` has one row per row of ``run.kernels``, in order: ``index device dur_ns kind launched owner
    signature flops bytes compute_ns memory_ns least_ns``, a call's work shared by time. ``rows``: those of the view.
    """

    activities: pl.DataFrame
    rows: pl.DataFrame
    peaks: dict[str, DevicePeak]
    attribution: Attribution

    @property
    def covered(self) -> float | None:
        """Share of the time of activities with a launch record, without collectives, whose work is known."""
        return self._known_share(pl.col("launched") & (pl.col("kind") != "collective"))

    @property
    def known_share(self) -> float | None:
        """Share of the time of all activities, without collectives, whose work is known."""
        return self._known_share(~pl.col("kind").is_in(["collective", "sync"]))

    def _known_share(self, some: pl.Expr) -> float | None:
        counted = self.activities.filter(some)
        total = int(counted["dur_ns"].sum())
        return int(counted.filter(pl.col("flops").is_not_null())["dur_ns"].sum()) / total if total else None

    @property
    def recomputes(self) -> bool:
        """Whether the FLOPs include recomputation: attention's backward repeats the forward."""
        return any(
            one.work is not None and "attention" in one.name and one.name.endswith("_backward")
            for one in self.attribution.signatures
        )


def roofline_of(run: Trace) -> Roofline | None:
    """The roofline of a run; None where no operator or no device activity was recorded. Raises BadPeaks."""
    return run.remember("roofline", (), lambda: _roofline(run))


def least_of(run: Trace) -> pl.Series | None:
    """The least time of each activity of ``run.kernels``, in their order (Float64, ns); null where unknown."""
    divided = divided_work_of(run) if peaks_of(run) else None
    return None if divided is None else divided.part("least_ns")


def peaks_of(run: Trace) -> dict[str, DevicePeak]:
    """The known peaks of the run's devices, by their name in the tables. Raises BadPeaks."""
    peaks = {device.id: peak_of(device) for device in run.info.devices}
    return {device: peak for device, peak in peaks.items() if peak is not None}


class DividedWork(Struct, frozen=True):
    """The share of each activity of ``run.kernels`` in its call's work. ``work`` has the work of one call by signature
    and device (``LINK`` for copies over a link). Per activity: ``number``, its row in ``work`` (null: none); ``share``,
    its part of its call's time; ``link``, whether its call mostly copied over a link."""

    attribution: Attribution
    signatures: pl.DataFrame
    work: pl.DataFrame
    number: pl.Series
    share: pl.Series
    link: pl.Series

    def part(self, name: str) -> pl.Series:
        """That column of ``work``, divided among the activities of each call by their time."""
        return self.work[name].gather(self.number) * self.share


def divided_work_of(run: Trace) -> DividedWork | None:
    """The work of each call divided among its activities; None where no operator was recorded. Raises BadPeaks."""
    return run.remember("divided work", (), lambda: _divided(run))


def _divided(run: Trace) -> DividedWork | None:
    attribution = attribution_of(run)
    if attribution is None:
        return None
    recorded = run.kernels.select("device", "dur_ns", "kind", "name").collect(engine="streaming")
    device = TextColumn.of(recorded["device"])
    places = [*device.texts, LINK]
    signatures = _signatures(attribution)
    devices = pl.DataFrame({"device": places}, schema={"device": pl.String})
    of_call = signatures.select("signature", "flops", "bytes", "matrix")
    work = of_call.join(devices, how="cross", maintain_order="left_right").join(
        _rates(signatures, peaks_of(run), places), on=["signature", "device"], how="left", nulls_equal=True,
        maintain_order="left")
    counted = recorded.select(
        pl.col("dur_ns").is_not_null() & is_work().fill_null(True)).to_series().to_numpy()
    took = recorded["dur_ns"].fill_null(0).to_numpy()
    row = np.where(counted, attribution.owner + 1, 0)
    whole = np.bincount(row, weights=took)[row] if len(row) else took
    share = np.full(len(took), np.nan)
    np.divide(took, whole, out=share, where=counted & (whole > 0))
    copied = np.flatnonzero((recorded["kind"] == "memcpy").fill_null(False).to_numpy())
    copied = copied[over_link(recorded["name"][copied])]
    link = 2 * np.bincount(row[copied], weights=took[copied], minlength=int(row.max(initial=0)) + 1)[row] > whole
    number = pl.Series(attribution.signature * len(places) + np.where(link, len(device.texts), device.number)).set(
        pl.Series(attribution.signature < 0), None)
    return DividedWork(attribution, signatures, work, number, pl.Series(share).fill_nan(None), pl.Series(link))


def _roofline(run: Trace) -> Roofline | None:
    divided, callers = divided_work_of(run), callers_of(run)
    if divided is None or callers is None:
        return None
    recorded = run.kernels.select(
        "index", pl.col("device").cast(pl.String), "dur_ns", pl.col("kind").cast(pl.String),
    ).collect(engine="streaming")
    attribution = divided.attribution
    activities = recorded.with_columns(
        launched=pl.Series((callers.call >= 0) | (callers.operator >= 0)), owner=pl.Series(attribution.owner),
        signature=pl.Series(attribution.signature.astype("int64")),
        link=divided.link, matrix=divided.work["matrix"].gather(divided.number),
    ).with_columns(divided.part(name).alias(name) for name in ("flops", "bytes", "compute_ns", "memory_ns", "least_ns"))
    return Roofline(activities, _rows(activities, divided, alike(run)), peaks_of(run), attribution)


def _signatures(attribution: Attribution) -> pl.DataFrame:
    """One row per signature: operator, shapes, type and work of one call; ``inputs`` only where the work varies."""
    result = [
        (at, one.name, one.shapes, one.inputs, one.dtype, one.work.flops if one.work else None,
         one.work.bytes if one.work else None, one.work.matrix if one.work else None, one.contradicts)
        for at, one in enumerate(attribution.signatures)
    ]
    frame = pl.DataFrame(result, schema=_SIGNATURE, orient="row")
    several = pl.struct("flops", "bytes").n_unique().over("op", "shapes", "dtype") > 1
    return frame.with_columns(inputs=pl.when(several).then("inputs"))


def _rates(signatures: pl.DataFrame, peaks: dict[str, DevicePeak], devices: Sequence[str | None]) -> pl.DataFrame:
    """The least time of one call of each signature on each device, ns: for its FLOPs, its bytes, and both."""
    result = []
    for signature, dtype, flops, moved, matrix in signatures.select(
            "signature", "dtype", "flops", "bytes", "matrix").rows():
        for device in devices if flops is not None else ():
            peak = peaks.get(device or "")
            rate = peak.flops_per_s(dtype, matrix) if peak is not None else None
            compute = 0.0 if not flops and peak is not None else flops / rate * 1e9 if rate else None
            memory = moved / peak.bytes_per_s * 1e9 if peak is not None and peak.bytes_per_s else None
            least = max(compute, memory) if compute is not None and memory is not None else None
            result.append((signature, device, compute, memory, least))
    schema = {"signature": pl.Int64, "device": pl.String, "compute_ns": pl.Float64, "memory_ns": pl.Float64,
              "least_ns": pl.Float64}
    return pl.DataFrame(result, schema=schema, orient="row")


def alike(run: Trace) -> dict[str, str]:
    """The display name of each device that ran anything; devices of one model share a name."""
    used = run.kernels.select(pl.col("device").cast(pl.String).drop_nulls().unique()).collect()["device"].to_list()
    peaks, names = peaks_of(run), {device.id: device.name or "" for device in run.info.devices}
    model = {name: (names.get(name, ""), peaks[name].scaled if name in peaks else None) for name in used}
    count, kinds = Counter(model.values()), len(set(model.values()))
    return {name: name if count[kind] == 1 else f"all {kind[0]}".rstrip() if kinds > 1 else "all devices"
            for name, kind in model.items()}


def _rows(activities: pl.DataFrame, divided: DividedWork, together: dict[str, str]) -> pl.DataFrame:
    """One row per operator, shapes and type on the devices of a model, most time lost first."""
    calls = activities.filter(is_work(), pl.col("signature") >= 0).group_by(
        "signature", "device", "link",
    ).agg(pl.col("owner").n_unique().alias("calls").cast(pl.Int64), pl.col("dur_ns").sum().alias("device_ns"))
    priced = calls.join(divided.signatures.drop("flops", "bytes", "matrix"), on="signature").with_columns(
        place=pl.when("link").then(pl.lit(LINK)).otherwise("device"),
    ).join(
        divided.work.rename({"device": "place"}), on=["signature", "place"], how="left", nulls_equal=True,
    ).with_columns(pl.col("device").replace(together) + pl.when("link").then(pl.lit(OVER_LINK)).otherwise(pl.lit("")))
    each = pl.col("calls")  # the mean call where the key hides a type, such as the one that a copy converts to
    summed = priced.sort("signature").group_by(*KEYS, maintain_order=True).agg(
        pl.col("calls", "device_ns").sum(), pl.col("matrix", "link").first(), pl.col("contradicts").any(),
        *(pl.when(pl.col(name).null_count() == 0).then((pl.col(name) * each).sum() / each.sum()).alias(name)
          for name in ("flops", "bytes", "compute_ns", "memory_ns", "least_ns")),
    ).with_columns(pl.col("flops", "bytes").round().cast(pl.Int64))
    took = pl.when(pl.col("device_ns") > 0).then(pl.col("device_ns"))
    compute, memory = (pl.col(name) * pl.col("calls") for name in ("compute_ns", "memory_ns"))
    least = (pl.col("least_ns") * pl.col("calls")).round().cast(pl.Int64)
    rows = summed.with_columns(
        intensity=pl.when(pl.col("bytes") > 0).then(pl.col("flops") / pl.col("bytes")),
        flops_per_s=pl.col("flops") * pl.col("calls") / took * 1e9,
        bytes_per_s=pl.col("bytes") * pl.col("calls") / took * 1e9,
        compute_of_peak=compute / took, memory_of_peak=memory / took,
        bound=pl.when("link").then(pl.lit(LINK)).when(pl.col("least_ns").is_not_null()).then(
            pl.when(pl.col("compute_ns") > pl.col("memory_ns")).then(pl.lit(COMPUTE)).otherwise(pl.lit(MEMORY))),
        least_ns=least, lost_ns=(pl.col("device_ns") - least).clip(0),
    ).with_columns(above_peak=pl.max_horizontal("compute_of_peak", "memory_of_peak") > ABOVE_PEAK)
    rows = rows.with_columns(pl.col("op", "device").cast(NAME))
    return rows.sort("lost_ns", "device_ns", "op", "shapes", "inputs", "device", "dtype",
                     descending=[True, True, False, False, False, False, False], nulls_last=True)


class PerCycle(Struct, frozen=True):
    """FLOPs per whole cycle (and rank of a job), and ``mfu``: their time at peak as a share of the step time."""

    flops: float | None = None
    mfu: float | None = None


def per_cycle(run: Trace, options: Options, side: Side = "a") -> PerCycle:
    """FLOPs and MFU of the whole cycles of a run; empty where it has none, or no work is known."""
    roofline, cycles = roofline_of(run), whole_cycles(run, options, side)
    count = sum(kind.frame.height for kind in cycles)
    if roofline is None or not count:
        return PerCycle()
    indices = pl.concat([kind.part.kernels.select("index") for kind in cycles]).collect(engine="streaming")
    inside = roofline.activities.join(indices, on="index", how="semi")
    if not inside["flops"].count():
        return PerCycle()
    window = sum(kind.step_ns(None) for kind in cycles)
    devices = inside.filter(pl.col("flops") > 0)["device"].n_unique() or 1
    ranks = max(kind.ranks for kind in cycles)
    at_peak = inside.filter(pl.col("flops") > 0)["compute_ns"]
    has_mfu = not at_peak.null_count() and window > 0 and bool(roofline.peaks)
    return PerCycle(
        float(inside["flops"].sum()) / count,
        float(at_peak.sum()) / (window * max(1.0, devices / ranks)) if has_mfu else None,
    )


def mfu_by_cycle(run: Trace, cycles: Cycles) -> pl.Series:
    """The MFU of each cycle (row of ``cycles.frame``): the time of its FLOPs at peak as a share of its step time; null
    where no work or no peak is known, or the cycle was not recorded whole."""
    roofline = shaped_roofline(run)
    if roofline is None or cycles.frame.is_empty() or cycles.frame["start_ns"].null_count():
        return pl.Series("mfu", [None] * cycles.frame.height, dtype=pl.Float64)
    keys = ["cycle"] if cycles.frame["rank"].null_count() else ["cycle", "rank"]
    members = in_cycles(run, cycles.frame, cycles.device_time).select("index", "cycle", "rank").collect(
        engine="streaming")
    counted = members.join(roofline.activities.filter(pl.col("flops") > 0), on="index").group_by(keys).agg(
        pl.when(pl.col("compute_ns").null_count() == 0).then(pl.col("compute_ns").sum()), pl.col("device").n_unique())
    window = pl.col("step_ns") * pl.col("device")
    share = pl.when("complete", window > 0).then(pl.col("compute_ns") / window)
    return cycles.frame.join(counted, on=keys, how="left", maintain_order="left").select(mfu=share).to_series()


def shaped_work(run: Trace) -> DividedWork | None:
    """The divided work of a run whose shapes and peak are known; None for other runs and for invalid settings."""
    if not (run.has("host.shapes") or run.captures is not None) or not run.has("kernels"):
        return None
    try:
        return divided_work_of(run) if peaks_of(run) else None
    except BadPeaks:
        return None


def shaped_roofline(run: Trace) -> Roofline | None:
    """The roofline of a run with ``shaped_work``, else None."""
    return None if shaped_work(run) is None else roofline_of(run)


def facts_of(run: Trace, options: Options, side: Side = "a") -> dict[str, Any]:
    """``covered``, ``mfu``, ``flops_per_cycle`` and ``devices`` of a run that has a roofline."""
    roofline = roofline_of(run)
    assert roofline is not None
    cycle = per_cycle(run, options, side)
    used = set(roofline.activities["device"].drop_nulls().unique())
    names = {device.id: device.name for device in run.info.devices}
    return {
        **capture_facts(run),
        "covered": roofline.covered, "mfu": cycle.mfu, "flops_per_cycle": cycle.flops,
        "devices": [
            {"device": device, "model": names.get(device) or (peak.model if peak else None),
             "peak_flops": peak.of_types if peak else {}, "peak_bytes": peak.bytes_per_s if peak else None,
             "source": peak.source if peak else None, "claimed": peak.claimed if peak else None}
            for device in sorted(used, key=lambda name: (len(name), name)) for peak in (roofline.peaks.get(device),)
        ],
    }
