"""Panels of rocprofiler-compute: the tool's own formulas, checked against plain readings of the files."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import polars as pl
import pytest

from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.rocm.panels import by_channel, panels
from warplens.loaders.trace import Trace

SAMPLES = Path(__file__).parents[3] / "samples"
COUNTERS = {"sq_active_inst_valu": 600.0, "grbm_gui_active": 200.0, "active": 100.0, "cu": 4.0, "tcc_hit_sum": 3.0,
            "tcc_miss_sum": 1.0, "sq_waves": 0.0, "sq_insts_salu": 5.0}


def counted(**counters: float) -> pl.DataFrame:
    launch = pl.Series("launch", [0], dtype=pl.UInt32)
    return pl.DataFrame([launch, *(pl.Series(name, [value]) for name, value in counters.items())])


def test_a_formula_needs_all_of_its_counters_and_divides_by_no_zero() -> None:
    found = {(row["section"], row["metric"]): row["value"] for row in panels(counted(**COUNTERS)).to_dicts()}
    speed = "System Speed-of-Light"
    assert found == {(speed, "VALU Util"): 150.0, (speed, "L2 Cache Hit Rate"): 75.0}


def test_channels_are_told_by_their_mean_spread_and_ends() -> None:
    names = {f"tcc_req[{at}]": f"TCC_REQ[{at}]" for at in range(4)} | {"tcc_req_sum": "TCC_REQ_sum"}
    rows = counted(**{"tcc_req[0]": 1.0, "tcc_req[1]": 3.0, "tcc_req[2]": 3.0, "tcc_req[3]": 5.0, "tcc_req_sum": 12.0})
    found, columns = by_channel(rows, names)
    assert columns == 4 and dict(found.select("metric", "value").rows()) == {
        "TCC_REQ, mean of 4": 3.0, "TCC_REQ, std dev of 4": pytest.approx(2**0.5), "TCC_REQ, min of 4": 1.0,
        "TCC_REQ, max of 4": 5.0}


def test_counters_of_two_workloads_are_compared_by_kernel(tmp_path: Path) -> None:
    for name in ("sysinfo.csv", "timestamps.csv", "pmc_perf.csv"):
        text = (SAMPLES / "rocprofiler_compute" / name).read_text()
        if name == "pmc_perf.csv":
            text = text.replace("TCC_HIT[", "TCC_MISS[")  # the other version of the tool collected something else
        (tmp_path / name).write_text(text)
    runs = tuple(open_run(str(folder))[0] for folder in (SAMPLES / "rocprofiler_compute", tmp_path))
    rows = ask(view("sections"), (runs[0], runs[1])).frame.to_dicts()
    only = {row["metric"]: (row["value_a"], row["value_b"]) for row in rows if "of 2" in row["metric"]}
    assert only["TCC_HIT, mean of 2"] == (6.0, None) and only["TCC_MISS, mean of 2"] == (None, 6.0)
    both = [row for row in rows if row["value_a"] is not None and row["value_b"] is not None]
    assert both and {row["change"] for row in both} <= {0.0, None}


@pytest.mark.parametrize(
    "sample", ["rocprof_results.csv", "rocprofv3_counters/counter_collection.csv", "rocpd_results.db"])
def test_counters_of_other_tools_are_metrics_of_their_launch(sample: str) -> None:
    (run,) = open_run(str(SAMPLES / sample))
    launches = run.kernels.collect().height
    found = run.launch_metrics.collect()
    assert found.height and found["index"].is_between(0, launches - 1).all()
    samples = run.metrics.filter(pl.col("metric").is_in(found["metric"].unique().implode())).collect()
    assert found["value"].sort().to_list() == samples["value"].sort().to_list()


@pytest.fixture(scope="module")
def workload(request: pytest.FixtureRequest) -> tuple[Trace, list[dict[str, float]]]:
    """The MI100 workload, and per dispatch its counters with ``ns``, from a plain reading."""
    folder = request.getfixturevalue("data") / "traces/rocprof/omniperf/device_filter/MI100"
    (run,) = open_run(str(folder), use_cache=False, compiled=False)
    with (folder / "pmc_perf.csv").open() as counters, (folder / "timestamps.csv").open() as times:
        rows = []
        for row, timed in zip(csv.DictReader(counters), csv.DictReader(times), strict=True):
            assert row["Start_Timestamp"] == timed["Start_Timestamp"]
            numbers = {name: float(value) for name, value in row.items() if value.replace(".", "", 1).isdigit()}
            rows.append(numbers | {"ns": int(timed["End_Timestamp"]) - int(timed["Start_Timestamp"])})
    return run, rows


def test_figures_of_a_real_workload_by_another_road(workload: tuple[Trace, list[dict[str, float]]]) -> None:
    run, rows = workload
    metric = pl.col("metric").cast(pl.String)
    for index, c in enumerate(rows):
        found = dict(run.launch_metrics.filter(pl.col("index") == index).select(metric, "value").collect().rows())
        misses = sum(c[f"TCP_TCC_{name}_REQ_sum"] for name in (
            "READ", "WRITE", "ATOMIC_WITH_RET", "ATOMIC_WITHOUT_RET"))
        issued = sum(c[f"SQ_INSTS_{name}"] for name in (
            "VALU", "VMEM", "SALU", "SMEM", "GDS", "BRANCH", "SENDMSG", "VSKIPPED"))
        read = c["TCC_EA_RDREQ_32B_sum"] * 32 + (c["TCC_EA_RDREQ_sum"] - c["TCC_EA_RDREQ_32B_sum"]) * 64
        written = c["TCC_EA_WRREQ_64B_sum"] * 64 + (c["TCC_EA_WRREQ_sum"] - c["TCC_EA_WRREQ_64B_sum"]) * 32
        hits = [c[f"TCC_HIT[{channel}]"] for channel in range(32)]
        expected = {
            "VALU Util": 100 * c["SQ_ACTIVE_INST_VALU"] / (c["GRBM_GUI_ACTIVE"] * 120),
            "IPC - Issue": issued / c["SQ_ACTIVE_INST_ANY"],
            "Vector L1D Cache Hit Rate": 100 - 100 * misses / c["TCP_TOTAL_CACHE_ACCESSES_sum"],
            "L2 Cache Hit Rate": 100 * c["TCC_HIT_sum"] / (c["TCC_HIT_sum"] + c["TCC_MISS_sum"]),
            "L2-Fabric Read BW": 1e9 * read / c["ns"],
            "L2-Fabric Write BW": 1e9 * written / c["ns"],
            "L2 Util": 100 * c["TCC_BUSY_sum"] / (32 * c["GRBM_GUI_ACTIVE"]),
            "Stalled on L2 Data": 100 * c["TCP_PENDING_STALL_CYCLES_sum"] / c["TCP_GATE_EN1_sum"],
            "Read Latency": c["TCC_EA_RDREQ_LEVEL_sum"] / c["TCC_EA_RDREQ_sum"],
            "VALU": c["SQ_INSTS_VALU"] / c["SQ_WAVES"],
            "TCC_HIT, mean of 32": statistics.fmean(hits),
            "TCC_HIT, std dev of 32": statistics.pstdev(hits),
            "SQ_WAVES": c["SQ_WAVES"],
        }
        assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_levels_counted_in_passes_of_their_own_go_to_their_launch(
    workload: tuple[Trace, list[dict[str, float]]], data: Path
) -> None:
    run, _ = workload
    with (data / "traces/rocprof/omniperf/device_filter/MI100/SQ_LEVEL_WAVES.csv").open() as file:
        waves = [float(row["SQ_ACCUM_PREV_HIRES"]) / float(row["GRBM_GUI_ACTIVE"]) for row in csv.DictReader(file)]
    found = run.launch_metrics.filter(pl.col("metric").cast(pl.String) == "Wave Occupancy").collect()
    assert found["value"].to_list() == pytest.approx(waves)
    shares = run.launch_metrics.filter(pl.col("metric").cast(pl.String) == "Wave Occupancy, of peak").collect()
    assert shares["value"].to_list() == pytest.approx([100 * one / (40 * 120) for one in waves])


def test_dram_of_each_launch_is_of_its_own_counters(workload: tuple[Trace, list[dict[str, float]]]) -> None:
    run, rows = workload
    shares = []
    for c in rows:
        read = c["TCC_EA_RDREQ_32B_sum"] * 32 + (c["TCC_EA_RDREQ_sum"] - c["TCC_EA_RDREQ_32B_sum"]) * 64
        written = c["TCC_EA_WRREQ_64B_sum"] * 64 + (c["TCC_EA_WRREQ_sum"] - c["TCC_EA_WRREQ_64B_sum"]) * 32
        there = read * c["TCC_EA_RDREQ_DRAM_sum"] / c["TCC_EA_RDREQ_sum"]
        there += written * c["TCC_EA_WRREQ_DRAM_sum"] / c["TCC_EA_WRREQ_sum"]
        shares.append(there / c["ns"] / 1228.8)
    assert run.kernels.collect()["dram"].to_list() == pytest.approx(shares, rel=1e-6)


def test_what_is_left_of_single_channels_is_said(workload: tuple[Trace, list[dict[str, float]]]) -> None:
    run, _ = workload
    (note,) = ask(view("sections"), (run,)).notes
    assert note.startswith("736 columns of single L2 channels are summarised as 23 counters: mean")


def test_a_dispatch_that_was_not_timed_takes_no_other_counters_with_it(tmp_path: Path) -> None:
    for name in ("sysinfo.csv", "timestamps.csv", "pmc_perf.csv"):
        lines = (SAMPLES / "rocprofiler_compute" / name).read_text().splitlines()
        (tmp_path / name).write_text("\n".join(lines[:1] + lines[2:] if name == "timestamps.csv" else lines) + "\n")
    (whole,), (part,) = (open_run(str(folder)) for folder in (SAMPLES / "rocprofiler_compute", tmp_path))
    (said,) = (one for one in part.info.warnings if "no timed launch" in one)
    assert said.startswith("counters of 1 of 12 dispatches")
    one, other = (run.kernels.select("name", "dram", "tensor").collect().rows() for run in (whole, part))
    assert other == one[1:]
    assert set(part.launch_metrics.collect()["index"]) == set(range(11))
