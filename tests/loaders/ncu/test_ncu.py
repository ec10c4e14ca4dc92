"""Nsight Compute: every layout it prints gives the same launches, and the digits a kernel table is made of."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import polars as pl
import pytest

from warplens.loaders.errors import Unreadable
from warplens.loaders.loader import HEAD_BYTES, Job
from warplens.loaders.ncu import LOADER, csv_pages
from warplens.loaders.ncu import metrics as ncu_metrics
from warplens.loaders.recording.faults import Faults
from warplens.loaders.trace import Trace

PEAK = ".avg.pct_of_peak_sustained_elapsed"
DUR, TENSOR, DRAM = "gpu__time_duration.sum", f"sm__pipe_tensor_cycles_active{PEAK}", f"gpu__dram_throughput{PEAK}"
BASE = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
        "Device", "CC"]  # fmt: skip
LONG = [*BASE, "Section Name", "Metric Name", "Metric Unit", "Metric Value"]
SHOWN = ("name", "dur_ns", "tensor", "dram")


def quoted(rows: list[list[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return out.getvalue()


def launch(number: int, name: str = "void gemm<int, (bool)1>(T1::Params, float *)", pid: int = 9) -> list[str]:
    return [str(number), str(pid), "python", "127.0.0.1", name, "1", "7", "(256, 1, 1)", "(10240, 1, 1)", "0", "8.0"]


def line(number: int, metric: str, unit: str, value: str, **of: object) -> list[str]:
    return [*launch(number, **of), "Command line profiler metrics", metric, unit, value]


def load(folder: Path, text: str) -> Trace:
    path = folder / "ncu.csv"
    path.write_text(text)
    assert LOADER.sniff(path.read_bytes()[:HEAD_BYTES])
    return LOADER.load(Job(path, folder))[0]


def shown(trace: Trace, *columns: str) -> list[tuple[object, ...]]:
    frame = trace.kernels.select(columns or SHOWN).with_columns(pl.selectors.float().round(6)).collect()
    return frame.with_columns(pl.selectors.float().cast(pl.Float64).round(4)).rows()


def test_units_vary_by_row_and_noise_stands_everywhere(tmp_path: Path) -> None:
    text = "==PROF== Connected to process 9 (/bin/x)\nepoch 1, loss 2\n" + quoted([LONG])
    text += quoted([line(0, DUR, "us", "6.75"), line(0, TENSOR, "%", "48.86")])
    text += '==PROF== Profiling "k" - 1: 0%....100% - 3 passes\n12 images done\n'
    text += quoted([line(0, DRAM, "%", "0.00"), line(1, DUR, "nsecond", "13,485"), line(1, TENSOR, "", "n/a")])
    text += quoted([line(2, DUR, "msecond", "1.45"), line(2, "sm__cycles_elapsed.avg", "cycle", "1,000")])
    text += "==PROF== Disconnected from process 9\n"
    trace = load(tmp_path, text)
    name = "void gemm<int, (bool)1>(T1::Params, float *)"
    assert shown(trace) == [(name, 6_750, 0.4886, 0.0), (name, 13_485, None, None), (name, 1_450_000, None, None)]
    assert shown(trace, "index", "start_ns", "device", "stream", "pid", "grid", "block", "kind")[1] == (
        1, None, "GPU 0", 7, 9, "10240,1,1", "256,1,1", "kernel"
    )  # fmt: skip
    assert trace.info.serialised
    assert trace.info.devices[0].properties == {"compute_capability": "8.0"}


def test_messages_may_fill_more_than_the_head(tmp_path: Path) -> None:
    noise = "".join(f'==PROF== Profiling "k" - {at}: 0%....50%....100% - 6 passes\n' for at in range(2000))
    assert len(noise) > HEAD_BYTES
    assert shown(load(tmp_path, noise + quoted([LONG, line(0, DUR, "ns", "5")])), "dur_ns") == [(5,)]


def test_a_details_page_gives_its_labels(tmp_path: Path) -> None:
    header = [*LONG, "Rule Name", "Rule Type", "Rule Description"]
    rows = [line(0, *cells) for cells in (
        ("Duration", "ms", "1.5"), ("DRAM Throughput", "%", "19.66"), ("DRAM Throughput", "Gbyte/s", "345.1"),
        ("Achieved Occupancy", "%", "11.32"), ("Registers Per Thread", "register/thread", "212"),
        ("Static Shared Memory Per Block", "Kbyte/block", "2.05"),
        ("Dynamic Shared Memory Per Block", "byte/block", "4"),
    )]  # fmt: skip
    rule = [*launch(0), "SpeedOfLight", "", "", "", "SOL", "OPT", 'Look at "memory",\nor "compute", alike']
    trace = load(tmp_path, quoted([header]) + quoted(rows) + quoted([rule, line(1, "Duration", "us", "2")]))
    columns = ("dur_ns", "dram", "occupancy", "registers", "shared_bytes")
    assert shown(trace, *columns) == [(1_500_000, 0.1966, 0.1132, 212, 2_054), (2_000, None, None, None, None)]
    assert trace.info.warnings == ()


def test_the_wide_page_has_its_units_in_the_second_line(tmp_path: Path) -> None:
    header = [*BASE, DRAM, DUR, "launch__registers_per_thread", "smsp__inst.sum", TENSOR]
    units = ["" for _ in BASE] + ["%", "usecond", "register/thread", "inst", "%"]
    rows = [[*launch(0, "a"), "50.12", "1,660.86", "32", "9", "35.62"], [*launch(1, "b"), "n/a", "2", "", "9", "0"]]
    trace = load(tmp_path, quoted([header, units, *rows]))
    assert shown(trace, *SHOWN, "registers") == [("a", 1_660_860, 0.3562, 0.5012, 32), ("b", 2_000, 0.0, None, None)]


def test_the_layout_of_2020_has_no_sizes_and_no_device(tmp_path: Path) -> None:
    header = [*BASE[:5], "Kernel Time", "Context", "Stream", *LONG[-4:]]
    row = ["0", "28439", "cfd", "127.0.0.1", "f(int, float*)", "2020-May-29 12:02:46", "1", "7", "SOL", "SOL DRAM"]
    trace = load(tmp_path, quoted([header, [*row, "%", "46.47"], [*row[:-1], "Duration", "usecond", "7.62"]]))
    assert shown(trace, *SHOWN, "device", "grid") == [("f(int, float*)", 7_620, None, 0.4647, None, None)]


def test_processes_and_tables_after_each_other_do_not_mix(tmp_path: Path) -> None:
    first = quoted([LONG, line(0, DUR, "ns", "1", pid=1), line(0, DUR, "ns", "2", pid=2)])
    trace = load(tmp_path, first + quoted([LONG, line(0, DUR, "ns", "3", pid=1)]))
    assert shown(trace, "index", "dur_ns", "pid") == [(0, 1, 1), (1, 2, 2), (2, 3, 1)]


def test_a_comma_may_be_the_decimal_sign() -> None:
    def read(*cells: str) -> list[float | None]:
        return ncu_metrics.printed_numbers(pl.Series(cells), Faults()).to_list()

    assert read("1.013,5", "45,35", "7") == [1013.5, 45.35, 7.0]
    assert read("1,013.5", "45,350", "n/a") == [1013.5, 45350.0, None]


def test_where_the_blocks_end_does_not_matter() -> None:
    metrics = [(DUR, "ns"), (TENSOR, "%"), (DRAM, "%")] * 20
    rows = [line(at // 3, metric, unit, str(at)) for at, (metric, unit) in enumerate(metrics)]
    text = ("noise\n" + quoted([LONG, *rows])).encode().splitlines(keepends=True)
    whole, parts = csv_pages.CsvPagesReader(), csv_pages.CsvPagesReader()
    whole.feed(b"".join(text))
    for piece in text:
        parts.feed(piece)
    frames = [
        ncu_metrics.measured(
            pl.concat(reader.records.launches).unique("id", maintain_order=True), pl.concat(reader.records.samples),
            Faults(),
        )
        for reader in (whole, parts)
    ]
    assert frames[0].equals(frames[1]) and frames[0].height == 20


def test_a_percentage_prints_as_it_would_in_double_precision() -> None:
    percent = [at / 100 for at in range(0, 10_001)]
    fractions = pl.Series([value / 100 for value in percent])
    stored = ncu_metrics.printable(fractions)
    assert [f"{value:.2f}" for value in stored] == [f"{value:.2f}" for value in fractions]
    assert ((stored.cast(pl.Float64) - fractions).abs() < 1e-7).all()


TEXT = """==PROF== Connected to process 417 (/bin/app)
loss 1
[417] app.elf@127.0.0.1
  void k<(int)1, float>(T1::Params) (10240, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 2, CC 8.0
    Section: Command line profiler metrics
    ---------------------------------------------------------------- ----------- ------------
    Metric Name                                                      Metric Unit Metric Value
    ---------------------------------------------------------------- ----------- ------------
    gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed                     %        45.35
    gpu__time_duration.sum                                               msecond     1,001.45
    flop_count_hp.sum                                                                     n/a
    sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed            %        48.81
    ---------------------------------------------------------------- ----------- ------------

    OPT   Memory is more utilized than compute: look at the table above

  f(int), 2020-May-29 12:02:46, Context 1, Stream 13
    Section: GPU Speed Of Light
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    Duration                         us         7.62
    SOL DRAM                          %            3
    ----------------------- ----------- ------------

"""


def test_the_text_layout(tmp_path: Path) -> None:
    path = tmp_path / "ncu.txt"
    path.write_text(TEXT)
    (trace,) = LOADER.load(Job(path, tmp_path))
    assert shown(trace, *SHOWN, "device", "stream", "grid", "pid") == [
        ("void k<(int)1, float>(T1::Params)", 1_001_450_000, 0.4881, 0.4535, "GPU 2", 7, "10240,1,1", 417),
        ("f(int)", 7_620, None, 0.03, None, 13, None, 417),
    ]
    assert LOADER.sniff(TEXT.split("\n", 3)[3].encode())


def test_messages_without_results_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ncu.log"
    path.write_text("==PROF== Connected to process 1 (x)\n==PROF== Disconnected from process 1\n")
    with pytest.raises(Unreadable, match="no results"):
        LOADER.load(Job(path, tmp_path))


@pytest.mark.parametrize("text", ["a, Context 1, Stream 7\n", "ID,Name\n1,x\n", "==123== NVPROF is profiling\n", ""])
def test_other_text_is_not_claimed(text: str) -> None:
    assert not LOADER.sniff(text.encode())


def test_recordings_open_with_every_launch(data: Path, tmp_path: Path) -> None:
    text = data / "traces/ncu_csv/gpu-pipes/mgn_linears/ncu-bulksync-825.txt"
    assert shown(LOADER.load(Job(text, tmp_path))[0], *SHOWN[1:]) == [
        (1_450_000, 0.4881, 0.4535), (669_310, 0.3517, 0.495), (660_860, 0.3562, 0.5012)
    ]  # fmt: skip
    (table,) = (data / "traces/ncu_csv").rglob("ncu.details.csv")
    assert shown(LOADER.load(Job(table, tmp_path))[0], "dur_ns", "dram", "occupancy", "grid") == [
        (6_750, 0.1966, 0.1132, "224,1,1")
    ]
