"""Writes the generated text samples beside itself: ``python samples/make_text.py``.

One small synthetic input per text format; the output is deterministic (a test compares it). The kernel tables are real
recordings and not made here.
"""

from __future__ import annotations

import csv
import io
import json
import math
import random
from pathlib import Path
from statistics import mean, stdev

PEAK = ".avg.pct_of_peak_sustained_elapsed"
LAUNCHES = (
    ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul>>(int, "
     "at::native::FillFunctor<float>, std::array<char*, 1ul>)", "(512, 1, 1)", "(128, 1, 1)", 2144, 0.0, 31.07),
    ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", "(64, 8, 1)", "(256, 1, 1)", 162_880, 68.4, 12.5),
    ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(T1::Params)", "(3, 128, 1)",
     "(256, 1, 1)", 58_112, 48.81, 5.5),
    ("void <unnamed>::softmax_warp_forward<float, float, float, 8, 0, 0>(T2 *, const T1 *, int, int, int)",
     "(1536, 1, 1)", "(32, 4, 1)", 9_376, 0.5, 61.29),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm *, unsigned long, ncclWork *)", "(24, 1, 1)", "(512, 1, 1)",
     1_250_000, 0.0, 18.02),
)  # fmt: skip
"""Kernel, grid, block, latency in ns, tensor-core and DRAM utilisation in percent."""
METRICS = (f"gpu__dram_throughput{PEAK}", "gpu__time_duration.sum", f"sm__pipe_tensor_cycles_active{PEAK}")


def _csv(rows: list[list[object]], quoting: int = csv.QUOTE_MINIMAL) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=quoting, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _time(ns: int, long: bool = False) -> tuple[str, str]:
    """Unit and value that ncu prints for a duration."""
    unit, size = ("msecond", 1e6) if ns >= 1_000_000 else ("usecond", 1e3) if ns >= 1_000 else ("nsecond", 1)
    return unit if long else unit[0] + "s", f"{ns / size:,.3f}"


def ncu_long() -> str:
    """``ncu --csv``: output of ncu and of the program, then one line per launch and metric."""
    head = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
            "Grid Size", "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value"]  # fmt: skip
    rows: list[list[object]] = [[*head]]
    for at, (name, grid, block, ns, tensor, dram) in enumerate(LAUNCHES):
        unit, time = _time(ns)
        for metric, of, value in zip(METRICS, ("%", unit, "%"), (f"{dram:.2f}", time, f"{tensor:.2f}"), strict=True):
            launch = [at, 4211, "python3.12", "127.0.0.1", name, 1, 7, block, grid, 0, "8.0"]
            rows.append([*launch, "Command line profiler metrics", metric, of, value])
    noise = "==PROF== Connected to process 4211 (/usr/bin/python3.12)\n"
    for at, (name, *_) in enumerate(LAUNCHES):
        plain = name.split("(")[0].split("<float")[0].split("::")[-1]
        noise += f'==PROF== Profiling "{plain}" - {at}: 0%....50%....100% - 3 passes\n'
    return noise + "step 0, loss 2.31\n==PROF== Disconnected from process 4211\n" + _csv(rows, csv.QUOTE_ALL)


def ncu_wide() -> str:
    """``ncu --csv --page raw``: one line per launch, the units in the second line."""
    head = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
            "Grid Size", "Device", "CC"]  # fmt: skip
    rows: list[list[object]] = [[*head, *METRICS, "launch__registers_per_thread"]]
    rows.append([*("" for _ in head), "%", "us", "%", "register/thread"])
    for at, (name, grid, block, ns, tensor, dram) in enumerate(LAUNCHES):
        launch = [at, 4211, "python3.12", "127.0.0.1", name, 1, 7, block, grid, 0, "8.0"]
        rows.append([*launch, f"{dram:.2f}", f"{ns / 1000:,.3f}", f"{tensor:.2f}", 32 + 8 * at])
    return _csv(rows, csv.QUOTE_ALL)


def ncu_text() -> str:
    """``ncu`` without --csv: per launch one line and a table below it."""
    lines = ["==PROF== Connected to process 4211 (/usr/bin/python3.12)", "[4211] python3.12@127.0.0.1"]
    dashes = f"    {'-' * 64} {'-' * 11} {'-' * 12}"
    for name, grid, block, ns, tensor, dram in LAUNCHES:
        unit, time = _time(ns, long=True)
        lines += [f"  {name} {grid}x{block}, Context 1, Stream 7, Device 0, CC 8.0"]
        lines += ["    Section: Command line profiler metrics", dashes]
        cells = [("Metric Name", "Metric Unit", "Metric Value"), *zip(
            METRICS, ("%", unit, "%"), (f"{dram:.2f}", time, f"{tensor:.2f}"), strict=True)]  # fmt: skip
        lines += [f"    {metric:<64} {of:>11} {value:>12}" for metric, of, value in cells]
        lines.insert(len(lines) - len(METRICS), dashes)
        lines += [dashes, ""]
    return "\n".join(lines) + "\n"


FUNCTIONS = (
    ("gemm_bf16_64x64_sliced1x2_ldg8_f2f_stages_64x5_tn", "GPU 7", "gpu_compute", 2.7, 65),
    ("void at::native::elementwise_kernel<128, 4, at::native::MulFunctor<float>>(int, float*)", "GPU 7",
     "gpu_compute", 0.8, 240),
    ("Memcpy DtoH (Device -> Pinned)", "GPU 7", "gpu_memcpy_d2h", 0.05, 3),
    ("oncpu", "Host", "oncpu", 156.0, 120_000),
)  # fmt: skip
"""Function, device, kind, usual share of a cycle in percent, launches."""
PERF = (
    "cycle pid hostname beta_pct function_name metric_name device func_type mu_pct sigma_pct duration "
    "interpolation_status anchor_name anchor_dur_us cycle_start_ts instances_count simple_name"
).split()


def cycle_profile(slow: bool) -> tuple[str, str]:
    """The perf file and the counters file of eight cycles; in the slow run the device clock is 210 MHz."""
    draw = random.Random(2 if slow else 1)
    clock, epoch = (210.0 if slow else 1410.0), 1_763_000_600_000_000
    rows: list[list[object]] = [[*PERF]]
    counters: list[list[object]] = [["counter_name", "timestamp", "value", "hostname"]]
    start = float(epoch)
    for cycle in range(1, 9):
        length = round(4 * (750_000 + draw.uniform(-9_000, 9_000))) / 4
        for name, device, kind, beta, count in FUNCTIONS:
            if cycle == 1 and device != "Host":
                continue
            share = beta * (3.3 if slow and kind == "gpu_compute" else 1) * draw.uniform(0.98, 1.02)
            metrics = (("gpu_sm_frequency", clock * 100), ("gpu_usage", 21.0 if slow else 6.0))
            if kind.startswith("gpu_memcpy"):
                metrics = (("gpu_pcie_transmit", draw.uniform(2e8, 4e8)),)
            elif device == "Host":
                metrics = (("host_cpu_usage", draw.uniform(6, 8)),)
            for metric, mu in metrics:
                rows.append([
                    cycle, 4211, "", f"{share:.4f}", name, metric, device, kind, f"{mu:.4f}", "0.0000",
                    f"{share * length / 100:.4f}", "**", "Scheduler.run_batch", f"{length:.4f}", f"{start:.4f}", count,
                    name.split("<")[0],
                ])  # fmt: skip
        for metric, value in (("gpu_sm_frequency", clock), ("host_cpu_usage", draw.uniform(6, 8)),
                              ("process_cpu_usage_4211", draw.uniform(170, 180))):  # fmt: skip
            counters.append([metric, f"{start + 1000:.6f}", f"{value:.6f}", ""])
        start += length
    return _csv(rows), _csv(counters)


HEADERS = ("Function Name", "Metric Name", "Device", "Suspicion Score", "β_{0}(%)", "β_{1}(%)", "Δβ(%)", "Z-Score(β)",
           "p-value(β)", "U-test p(β)", "μ_{0}", "μ_{1}", "Δμ", "Z-Score(μ)", "Z-Score(log_μ)", "p-value(μ)",
           "U-test p(μ)")  # fmt: skip


def comparison_rows() -> list[list[object]]:
    """Triplets of two synthetic runs with the scores of the reference; the p-values are invented."""
    draw = random.Random(3)
    rows: list[list[object]] = []
    for name, device, kind, share, _ in FUNCTIONS:
        for metric, scale in (("gpu_sm_frequency", 118_687.5), ("gpu_usage", 6.3)) if device != "Host" else (
            ("host_cpu_usage", 6.3),
        ):  # fmt: skip
            times = 3.2 if kind == "gpu_compute" else 1.0
            a = [share * draw.uniform(0.98, 1.02) for _ in range(10)]
            b = [share * times * draw.uniform(0.98, 1.02) for _ in range(10)]
            low = 0.18 if metric == "gpu_sm_frequency" else 1.0
            mu_a = [scale * draw.uniform(0.95, 1.05) for _ in range(10)]
            mu_b = [scale * low * draw.uniform(0.95, 1.05) for _ in range(10)]
            logs = [math.log1p(value) for value in mu_a], [math.log1p(value) for value in mu_b]
            z_beta, z_mu, z_log = ((mean(y) - mean(x)) / stdev(x) for x, y in ((a, b), (mu_a, mu_b), logs))
            delta = mean(b) - mean(a)
            moved = 0.000002 if times > 1 else 0.5
            numbers = (abs(delta) * (abs(z_beta) + abs(z_log)), mean(a), mean(b), delta, z_beta, moved, moved * 1.5,
                       mean(mu_a), mean(mu_b), mean(mu_b) - mean(mu_a), z_mu, z_log,
                       None if metric == "gpu_usage" else 0.01, 0.02)  # fmt: skip
            rows.append([name, metric, device, *numbers])
    return sorted(rows, key=lambda row: -float(str(row[3])))


def comparison_csv() -> str:
    """The detail table only, for two processes with different pids."""
    header: list[object] = [name.format("base_pid_4211", "slow_pid_4300") for name in HEADERS]
    rows = [[f"{cell:.6f}" if isinstance(cell, float) else "" if cell is None else cell for cell in row]
            for row in comparison_rows()]  # fmt: skip
    return _csv([header, *rows])


def comparison_md() -> str:
    """The whole report: summary, ranked cycle times, detail table."""
    draw = random.Random(4)
    times = [sorted((round(4 * draw.uniform(7e5, 8e5)) / 4 for _ in range(count)), reverse=True) for count in (6, 5)]
    means = [mean(side) for side in times]
    out = ["# Strict Performance Comparison: made-up runs (PID: 4211)", "", "## 1. High-Level Performance Summary", "",
           "| Metric | base | slow | Δ (slow - base) | Change (%) |", "|:---|:---|:---|:---|:---|",
           "| Total Cycles | 6 | 5 | -1 | - |",
           f"| Avg Cycle Time (us) | {means[0]:,.2f} | {means[1]:,.2f} | {means[1] - means[0]:,.2f} "
           f"| {means[1] / means[0] - 1:+.2%} |", "", "## 2. Cycle Duration Distribution Comparison", "",
           "| Time Rank | base Time (us) | slow Time (us) | Δ (us) | Δ (%) |",
           "|---:|---:|:---|:---|:---|"]  # fmt: skip
    for rank in range(6):
        if rank < 5:
            a, b = times[0][rank], times[1][rank]
            out.append(f"| {rank + 1} | {a:,.2f} | {b} | {b - a:,.2f} | {b / a - 1:+.2%} |")
        else:
            out.append(f"| {rank + 1} | {times[0][rank]:,.2f} | - | - | - |")
    out += ["", "## 3. In-depth Core Metric Comparison", "", "### Detailed comparison table", ""]
    out += ["| " + " | ".join(name.format("base", "slow") for name in HEADERS) + " |", "|:---" * len(HEADERS) + "|"]
    for row in comparison_rows():
        cells = ["nan" if cell is None else f"{cell:,.4f}" if isinstance(cell, float) else str(cell) for cell in row]
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


CATEGORIES = ("Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CPU Exec", "Other")
OPERATORS = ("aten::convolution_backward", "aten::mm", "c10d::allreduce_")
KERNELS = ("void gemm<float, 128>(float*, int)", "elementwise_kernel(int)", "ncclDevKernel_AllReduce_Sum_f32()")


def _table(names: tuple[str, ...], rows: list[list[object]]) -> dict[str, object]:
    return {"columns": [{"name": name} for name in names], "rows": rows}


def tb_views() -> str:
    """Two workers with five view documents each; worker 1 spends time in a collective."""
    lines: list[dict[str, object]] = []
    for worker in range(2):
        times = [48_000, 900, 40, 12_000 * worker, 6_100, 2_000, 9_000, 700]
        steps = [[str(step), *(time + 10 * step for time in times)] for step in (3, 4)]
        total = sum(times) + 35 * len(times)
        children = [{"name": name, "value": time + 35} for name, time in zip(CATEGORIES, times, strict=True)]
        busy = 100 * (times[0] + 35) / total
        gauges = {"GPU Utilization": busy, "Est. SM Efficiency": busy * 0.9, "Est. Achieved Occupancy": 41.5,
                  "Kernel Time using Tensor Cores": 62.5}  # fmt: skip
        told = [{"title": f"GPU {worker}:", "value": ""}, {"title": "Name", "value": "Made-up GPU"}]
        told += [{"title": title, "value": f"{value:.2f} %"} for title, value in gauges.items()]
        lines.append({
            "steps": _table(("Step", *CATEGORIES), steps),
            "performance": [{"name": "Average Step Time", "value": total, "extra": 100, "children": children}],
            "recommendations": "<ul><li>N/A</li></ul>",
            "environments": [{"title": "Number of Worker(s)", "value": "2"}, {"title": "Device Type", "value": "GPU"}],
            "gpu_metrics": {"title": "GPU Summary", "data": told},
        })  # fmt: skip
        device = [30_000, 18_000, 12_000 * worker]
        pie = [[name, time] for name, time in zip(OPERATORS, device, strict=True)]
        lines.append({side: _table(("name", "value"), pie) for side in ("device_total_time", "device_self_time")})
        lines.append({"metadata": {"sort": "device_self_duration"}, "data": [
            {"name": name, "calls": 12 + at, "device_self_duration": time, "device_total_duration": time,
             "host_self_duration": 700 + at, "host_total_duration": 900 + at, "tc_eligible": "Yes" if at < 2 else "No",
             "tc_self_ratio": 0.625 if at == 1 else 0.0, "tc_total_ratio": 0.625 if at == 1 else 0.0}
            for at, (name, time) in enumerate(zip(OPERATORS, device, strict=True))
        ]})  # fmt: skip
        columns = ("Name", "Tensor Cores Used", "Calls", "Total Duration (us)", "Mean Duration (us)",
                   "Max Duration (us)", "Min Duration (us)")  # fmt: skip
        rows: list[list[object]] = [
            [name, "Yes" if at == 0 else "No", 12, time, time // 12, time // 6, time // 20]
            for at, (name, time) in enumerate(zip(KERNELS, device, strict=True))
        ]
        lines.append({"metadata": {"sort": "Total Duration (us)"}, "data": _table(columns, rows)})
        lines.append({"total": _table(("name", "value"), [[row[0], row[3]] for row in rows])})
    return "".join(json.dumps(line) + "\n" for line in lines)


def kineto() -> str:
    """Two steps of a PyTorch trace, each with an operator, its launch call and kernel, and a copy."""
    events: list[dict[str, object]] = []
    for step in range(2):
        at = 1_000_000.0 + 5_000 * step
        slices: tuple[tuple[str, str, float, float, int | str, dict[str, object]], ...] = (
            ("user_annotation", f"ProfilerStep#{step}", 0, 4_000.5, 4211, {}),
            ("cpu_op", "aten::mm", 100, 900, 4211, {"External id": 10 + step}),
            ("cuda_runtime", "cudaLaunchKernel", 300, 9.25, 4211,
             {"correlation": 70 + step, "External id": 10 + step}),
            ("kernel", LAUNCHES[1][0], 350, 162.88, 0,
             {"device": 0, "stream": 7, "correlation": 70 + step, "External id": 10 + step, "grid": [64, 8, 1],
              "block": [256, 1, 1], "registers per thread": 128}),
            ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 600, 12.5, 0,
             {"device": 0, "stream": 7, "correlation": 80 + step, "bytes": 4096}),
        )  # fmt: skip
        for category, name, start, length, pid, args in slices:
            tid = 7 if pid == 0 else 4211
            events.append({"ph": "X", "cat": category, "name": name, "ts": at + start, "dur": length, "pid": pid,
                           "tid": tid, "args": args})  # fmt: skip
    device = {"id": 0, "name": "Made-up GPU", "numSms": 80, "maxThreadsPerMultiprocessor": 2048}
    return json.dumps({"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events}, indent=1) + "\n"


SUMMARIES = (
    ("nvtx_sum", "Instances", ("Style", "Range"), ((900_000, 3, "PushPop", ":train step"),)),
    ("osrt_sum", "Num Calls", ("Name",), ((5_000_000, 10, "poll"), (20_000, 4, "fwrite"))),
    ("cuda_api_sum", "Num Calls", ("Name",), (
        (700_000, 3, "cudaDeviceSynchronize"), (60_000, 12, "cudaLaunchKernel"), (40_000, 2, "cudaMemcpy"))),
    ("cuda_gpu_kern_sum", "Instances", ("Name",), ((600_000, 12, "gemm(float *, float *, int)"),)),
    ("cuda_gpu_mem_time_sum", "Count", ("Operation",), ((30_000, 2, "[CUDA memcpy Host-to-Device]"),)),
)


def nsys_stats_printed() -> str:
    """Output of ``nsys stats`` for two recordings: columns under a line of dashes."""
    told = []
    for slow in (1, 2):
        for title, count, names, rows in SUMMARIES:
            head = ["Time (%)", "Total Time (ns)", count, "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)",
                    "StdDev (ns)", *names]
            whole = sum(row[0] for row in rows)
            lines = [head]
            for total, number, *said in rows:
                each = total * slow // number
                lines.append([f"{100 * total / whole:.1f}", f"{total * slow:,}", f"{number:,}", f"{each:,.1f}",
                              f"{each:,.1f}", f"{each:,}", f"{each:,}", "0.0", *said])
            told += [f"Executing '{title}' stats report", "", *_columns(lines), ""]
        sizes = [["Total (MB)", "Count", "Avg (MB)", "Med (MB)", "Min (MB)", "Max (MB)", "StdDev (MB)", "Operation"],
                 ["400.000", "2", "200.000", "200.000", "200.000", "200.000", "0.000", "[CUDA memcpy Host-to-Device]"]]
        told += ["Executing 'cuda_gpu_mem_size_sum' stats report", "", *_columns(sizes), ""]
    return "\n".join(told)


def _columns(lines: list[list[str]]) -> list[str]:
    """Lines with numbers right-aligned, names left-aligned, and dashes under the header, as the tool prints them."""
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    lines = [lines[0], ["-" * width for width in widths], *lines[1:]]
    return [" " + "  ".join(f"{cell:>{width}}" if "(" in head or head in ("Count", "Instances", "Num Calls")
                            else f"{cell:<{width}}" for cell, width, head in zip(line, widths, lines[0], strict=True))
            for line in lines]


def nsys_api_trace() -> str:
    """``cuda_api_trace`` and ``nvtx_pushpop_trace`` as CSV, one after the other."""
    made = ["Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name"]
    for step in range(3):
        at = 1_000_000 + 400_000 * step
        made.append(f"{at + 5_000},6000,cudaLaunchKernel_v7000,0,{100 + step},41,41,20,python")
        made.append(f"{at + 20_000},250000,cudaDeviceSynchronize_v3020,0,{200 + step},41,41,20,python")
    made += ["", "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,RangeId,"
             "ParentId,RangeStack,NameTree"]
    for step in range(3):
        at = 1_000_000 + 400_000 * step
        made.append(f"{at},{at + 300_000},300000,0,300000,train step,41,41,0,0,{step + 1},,:{step + 1},train step")
    return "\n".join([*made, ""])


def files() -> dict[str, str]:
    """Path under samples/ → content."""
    made = {
        "ncu_long.csv": ncu_long(),
        "ncu_wide.csv": ncu_wide(),
        "ncu_text.txt": ncu_text(),
        "nsys_stats.txt": nsys_stats_printed(),
        "nsys_api_trace.csv": nsys_api_trace(),
        "comparison.md": comparison_md(),
        "comparison.csv": comparison_csv(),
        "tb_views.jsonl": tb_views(),
        "kineto.pt.trace.json": kineto(),
    }
    for name, slow in (("normal", False), ("abnormal", True)):
        perf, counters = cycle_profile(slow)
        made[f"cycle_profile/{name}/result_perf_data.csv"] = perf
        made[f"cycle_profile/{name}/result_counters_data.csv"] = counters
    return made


if __name__ == "__main__":
    for name, content in files().items():
        path = Path(__file__).resolve().parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="\n")
        print(path.name, len(content))
