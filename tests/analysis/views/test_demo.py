"""The demo pair tells the story it was made for, with the exact cycle times of the comparison it is modelled on."""

from __future__ import annotations

import gzip
import runpy
from pathlib import Path

import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.query.ask import ask
from warplens.analysis.table.export import render
from warplens.analysis.views import view
from warplens.analysis.views.cycles import VIEW as CYCLES
from warplens.analysis.views.diff import VIEW as DIFF
from warplens.analysis.views.overview import VIEW as OVERVIEW
from warplens.analysis.views.pairs import VIEW as PAIRS
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace


@pytest.fixture(scope="module")
def pair() -> tuple[Trace, Trace]:
    folder = Path(__file__).resolve().parents[3] / "samples" / "demo"
    normal, = open_run(str(folder / "normal.json.gz"), use_cache=False)
    abnormal, = open_run(str(folder / "abnormal.json.gz"), use_cache=False)
    return normal, abnormal


def test_the_script_writes_the_files_that_are_carried(samples: Path, tmp_path: Path) -> None:
    runpy.run_path(str(samples / "make_demo.py"))["write"](tmp_path)
    for name in ("normal.json.gz", "abnormal.json.gz"):
        # the compressed bytes depend on the zlib at hand, the document does not
        made, carried = (gzip.decompress((at / name).read_bytes()) for at in (tmp_path, samples / "demo"))
        assert made == carried
        assert (samples / "demo" / name).stat().st_size < 600_000


def test_the_cycle_times_are_those_of_the_known_comparison(pair: tuple[Trace, Trace]) -> None:
    table = ask(CYCLES, pair)
    assert [(facts["n"], round(facts["mean_us"], 2)) for facts in (table.facts["a"], table.facts["b"])] == [
        (12, 750_054.29), (10, 785_001.80)
    ]
    assert table.frame.row(0)[:4] == (1, 771_618_750, 1_001_081_250, 229_462_500)
    assert table.summary[1] == (
        "Cycle time: cannot tell (mean 751 → 790 ms, 95% CI −30 to +106 ms, median 751 → 754 ms). "
        "B has 2 outliers, #9 863 ms and #10 1,001 ms: extra time idle on Python code"
    )
    assert "6 of 22 lack GPU records" in table.summary[0]


def test_the_most_suspicious_are_the_gemms_while_the_clock_was_low(pair: tuple[Trace, Trace]) -> None:
    rows = ask(PAIRS, pair, Options()).frame.head(4).to_dicts()
    assert all("gemm_bf16_64x64" in row["function"] and row["device"] == "GPU 7" for row in rows)
    assert {row["metric"] for row in rows} == {"gpu_sm_frequency", "gpu_frequency"}
    assert {(row["mu_a"], row["mu_b"]) for row in rows} == {(118_687.5, 21_000.0)}
    assert rows[0]["z_mu"] == pytest.approx(-10.84, abs=0.005)
    assert rows[0]["z_log_mu"] == pytest.approx(-24.52, abs=0.005)


def test_the_clock_is_in_the_metrics_in_megahertz(pair: tuple[Trace, Trace]) -> None:
    clock = pair[1].metrics.collect().filter(metric="gpu_sm_frequency", device="GPU 7")
    assert clock.select("value", "unit").unique().rows() == [(210.0, "MHz")]


def test_the_export_of_the_diff_shows_the_distribution_of_cycle_times(pair: tuple[Trace, Trace]) -> None:
    table = ask(view("diff"), pair)
    assert (sum(table.facts["histogram"]["a"]), sum(table.facts["histogram"]["b"])) == (12, 10)
    assert "```text" in render(table, "md").decode()


def test_overview_cycles_and_diff_say_the_same_of_the_pair(pair: tuple[Trace, Trace]) -> None:
    said = (
        "cannot tell (mean 751 → 790 ms, 95% CI −30 to +106 ms, median 751 → 754 ms). "
        "B has 2 outliers, #9 863 ms and #10 1,001 ms: extra time idle on Python code"
    )
    overview, cycles, diff = (ask(one, pair) for one in (OVERVIEW, CYCLES, DIFF))
    assert overview.facts["findings"][0] == f"Cycle time: {said}."
    assert cycles.summary[1] == f"Cycle time: {said}"
    assert diff.summary[0].startswith(f"Cycle   {said}")
    assert not any("%)" in line for line in (*overview.summary, *overview.facts["findings"], *cycles.summary))
    stated = [table.all_facts[side]["cycles"] for table in (overview, cycles, diff) for side in "ab"]
    assert stated[:2] == stated[2:4] == stated[4:]
    assert (stated[0]["count"], stated[0]["whole"], stated[1]["count"], stated[1]["whole"]) == (12, 10, 10, 6)
