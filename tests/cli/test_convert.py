"""From what Nsight Compute prints to the four-column table, digit for digit, whatever the digits are."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest

from warplens.cli.main import main

PEAK = ".avg.pct_of_peak_sustained_elapsed"
METRICS = ("gpu__time_duration.sum", f"sm__pipe_tensor_cycles_active{PEAK}", f"gpu__dram_throughput{PEAK}")
HEADER = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
          "Grid Size", "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value"]  # fmt: skip
LONG = "ampere_fp16_s16816gemm_fp16_64x128_ldg8_relu_f2f_stages_64x4_tn"
NAMES = {
    "void at::native::vectorized_elementwise_kernel<4, at::native::F<float>>(int, T2)": "vectorized_elementwise_kernel",
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm>(T1::Params)": "Kernel",
    "void <unnamed>::softmax_warp_forward<float, 8>(T2 *)": "softmax_warp_forward",
    LONG: LONG[:47] + "...",
    "indexSelectLargeIndex(int *)": "indexSelectLargeIndex",
}
"""Names as recorded → as the table prints them."""


def test_every_digit_is_that_of_double_precision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = random.Random(0)
    rows: list[list[object]] = []
    expected = [f"{'Kernel':<50}  {'Latency':>10} {'Tensor':>6} {'DRAM':>6}"]
    for number in range(400):
        name, short = draw.choice(list(NAMES.items()))
        ns = draw.randrange(1_000, 9_000_000)
        tensor, dram = (draw.choice([draw.randrange(10_001), 50 + 100 * draw.randrange(100)]) / 100 for _ in range(2))
        unit, scale, digits = draw.choice([("ns", 1, 0), ("us", 1e3, 3), ("msecond", 1e6, 6)])
        values = (f"{ns / scale:,.{digits}f}", f"{tensor:.2f}", f"{dram:.2f}")
        launch = [number, 1, "python", "127.0.0.1", name, 1, 7, "(256, 1, 1)", "(80, 1, 1)", 0, "8.0", "metrics"]
        rows += [[*launch, *sample] for sample in zip(METRICS, (unit, "%", "%"), values, strict=True)]
        expected.append(f"{short:<50}| {ns:10.0f} {tensor / 100:6.2f} {dram / 100:6.2f}")
    path = tmp_path / "ncu.csv"
    with path.open("w", newline="") as file:
        file.write("==PROF== Connected to process 1 (python)\n")
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([HEADER, *rows])
    assert main(["report", str(path), "--view", "launches", "--format", "kernel-table", "--no-cache"]) == 0
    assert capsys.readouterr().out.splitlines() == expected
