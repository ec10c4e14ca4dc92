"""Forty questions an engineer asks of the shared recordings, answered with warplens alone.

Each has at most three commands and 8,000 tokens of output (a token is four characters), and an answer that is known by
another road: plain readings of the files below, published tables of other tools, or the fault that was injected.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from warplens.cli.main import main

MOST_COMMANDS, MOST_TOKENS = 3, 8_000
R0 = "traces/kineto/tb_plugin/samples/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz"
R4 = "traces/kineto/tb_plugin/samples/resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz"
H100 = "traces/kineto/tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
MI300 = "traces/kineto/tracelens/mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
DLRM = "traces/kineto/param/dlrm_kineto"
PAIRS = "latencyprism/"
CLOCK, SQUEEZE = PAIRS + "SGLang-gpu_instability", PAIRS + "SGLang-cpu_compute_squeeze_out"
LINK, SLOW_CPU = PAIRS + "SGLang-gpu_memory_squeeze_out_NVLink", PAIRS + "vLLM-cpu_frequency_reduction"
BERT, LLM = "seeds/kernel_table_bert_training.txt", "seeds/kernel_table_llm_inference.txt"
GEMM = "ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_stages_64x5_tn"

Answer = Any
Said = list[str]


class Question(NamedTuple):
    """What is asked, the commands, how their output is read, and the answer by another road."""

    asked: str
    commands: tuple[str, ...]
    read: Callable[[Said], Answer]
    known: Callable[[Path], Answer]
    within: float = 0.0


# the other road: files read plainly


@cache
def events(path: Path) -> list[dict[str, Any]]:
    """The complete events of a Chrome trace."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [one for one in json.loads(text)["traceEvents"] if one.get("ph") == "X"]


def of(path: Path, *categories: str) -> list[dict[str, Any]]:
    return [one for one in events(path) if one.get("cat", "").lower() in categories]


def on_gpu(path: Path) -> list[dict[str, Any]]:
    return of(path, "kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")


def by_name(path: Path, *categories: str) -> Counter[str]:
    """Summed duration by name, µs."""
    sums: Counter[str] = Counter()
    for one in of(path, *categories):
        sums[one["name"]] += one["dur"]
    return sums


def steps(path: Path) -> list[float]:
    """Durations of the recorded steps, ms."""
    marks = {one["name"]: one["dur"] / 1e3 for one in events(path) if one["name"].startswith("ProfilerStep#")}
    return list(marks.values())


def step_time(path: Path) -> float:
    """Mean step time, ms: from the first mark to the end of the last mark or activity, over the steps."""
    marks = [one for one in events(path) if one["name"].startswith("ProfilerStep#")]
    end = max(one["ts"] + one["dur"] for one in (*marks, *on_gpu(path)))
    return float(end - min(one["ts"] for one in marks)) / 1e3 / len(steps(path))


def median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def loading(path: Path) -> list[tuple[float, float]]:
    """When the DataLoader was waited for, µs."""
    return [(one["ts"], one["ts"] + one["dur"]) for one in events(path) if "enumerate(DataLoader)" in one["name"]]


def gaps(path: Path) -> list[tuple[float, float]]:
    """When the device ran nothing between its first and last activity, µs."""
    found, end = [], math.inf
    for one in sorted(on_gpu(path), key=lambda one: one["ts"]):
        if one["ts"] > end:
            found.append((end, one["ts"]))
        end = one["ts"] + one["dur"] if end == math.inf else max(end, one["ts"] + one["dur"])
    return found


def in_both(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> float:
    return sum(max(0.0, min(b, d) - max(a, c)) for a, b in one for c, d in other)


def collectives(folder: Path) -> list[dict[int, tuple[float, float]]]:
    """Of each collective of the job, in order, the start and duration on each rank, µs."""
    ranks = {}
    for path in sorted(folder.glob("worker*.json")):
        kernels = sorted(
            (one for one in of(path, "kernel") if "nccl" in one["name"].lower()), key=lambda one: one["ts"]
        )
        ranks[int(re.findall(r"worker(\d+)", path.name)[0])] = [(one["ts"], one["dur"]) for one in kernels]
    fewest = min(map(len, ranks.values()))
    return [{rank: own[at] for rank, own in ranks.items()} for at in range(fewest)]


def waits(folder: Path) -> dict[int, float]:
    """How long each rank waited in its collectives, ms: its duration beyond the shortest, for they end together."""
    told: dict[int, float] = defaultdict(float)
    for one in collectives(folder):
        shortest = min(duration for _, duration in one.values())
        for rank, (_, duration) in one.items():
            told[rank] += (duration - shortest) / 1e3
    return told


def table(path: Path) -> list[tuple[str, int, float, float]]:
    """Name, latency, tensor and DRAM of each launch in a kernel table."""
    rows = []
    for line in path.read_text().splitlines()[1:]:
        name, _, values = line.rpartition("|")
        latency, tensor, dram = values.split()
        rows.append((name.strip(), int(latency), float(tensor), float(dram)))
    return rows


def csv_rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def reference(pair: Path) -> list[dict[str, str]]:
    return csv_rows(pair / "expected_comparison.csv")


def profiled(run: Path, metric: str) -> float:
    """The mean of a metric over functions and cycles, in its own unit."""
    values = [
        float(row["mu_pct"]) / 100
        for row in csv_rows(run / "result_perf_data.csv")
        if row["metric_name"] == metric and row["mu_pct"]
    ]
    return sum(values) / len(values)


def views_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


# how output is read


def rows(said: Said, at: int = -1) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = json.loads(said[at])["rows"]
    return made


def facts(said: Said, at: int = -1) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(said[at])["facts"]
    return made


def view(name: str, *runs: str, more: str = "--top 3") -> str:
    return f"report {' '.join(runs)} --view {name} --format json {more}"


def sql(run: str, query: str) -> str:
    return f'sql {run} "{query}" --format json'


QUESTIONS = (
    Question(
        "Which kernel takes the most time?",
        (view("kernels", R0),),
        lambda said: rows(said)[0]["name"],
        lambda data: by_name(data / R0, "kernel").most_common(1)[0][0],
    ),
    Question(
        "How long does it run in all, ms?",
        (view("kernels", R0),),
        lambda said: rows(said)[0]["total_ns"] / 1e6,
        lambda data: by_name(data / R0, "kernel").most_common(1)[0][1] / 1e3,
        1e-6,
    ),
    Question(
        "How many kernels were launched?",
        (view("kernels", R0),),
        lambda said: facts(said)["by_kind"]["kernel"]["count"],
        lambda data: len(of(data / R0, "kernel")),
    ),
    Question(
        "How long is a step, ms?",
        (view("cycles", R0),),
        lambda said: facts(said)["mean_us"] / 1e3,
        lambda data: sum(steps(data / R0)) / len(steps(data / R0)),
        1e-6,
    ),
    Question(
        "What share of the time is the GPU busy?",
        (view("overview", R0),),
        lambda said: facts(said)["devices"][0]["busy"],
        lambda data: (
            1
            - sum(b - a for a, b in gaps(data / R0))
            / (max(one["ts"] + one["dur"] for one in on_gpu(data / R0)) - min(one["ts"] for one in on_gpu(data / R0)))
        ),
        1e-4,
    ),
    Question(
        "How much of its idle time does the GPU wait for the DataLoader, ms?",
        (view("idle", R0),),
        lambda said: facts(said)["devices"][0]["causes"]["input"] / 1e6,
        lambda data: in_both(gaps(data / R0), loading(data / R0)) / 1e3,
        0.03,
    ),
    Question(
        "How long is the longest gap, ms?",
        (view("idle", R0, more="--top 1"),),
        lambda said: rows(said)[0]["dur_ns"] / 1e6,
        lambda data: max(b - a for a, b in gaps(data / R0)) / 1e3,
        1e-6,
    ),
    Question(
        "What would a step take without the DataLoader, ms?",
        (f"report {R0} --view whatif --change idle:input=0 --format json --top 1",),
        lambda said: facts(said)["scenario"]["predicted_ns"] / 1e6,
        lambda data: step_time(data / R0) - sum(b - a for a, b in loading(data / R0)) / 1e3 / len(steps(data / R0)),
        0.12,
    ),
    Question(
        "What would half the DataLoader time buy per step, ms?",
        (f"report {R0} --view whatif --change idle:input=0.5 --format json --top 1",),
        lambda said: facts(said)["scenario"]["saved_ns"] / 1e6,
        lambda data: sum(b - a for a, b in loading(data / R0)) / 2e3 / len(steps(data / R0)),
        0.12,
    ),
    Question(
        "How long is a step with four workers, ms (median)?",
        (view("cycles", R0, R4),),
        lambda said: facts(said)["b"]["median_us"] / 1e3,
        lambda data: median(steps(data / R4)),
        1e-6,
    ),
    Question(
        "What explains the change from no workers to four?",
        (f"diff {R0} {R4} --top 5",),
        lambda said: bool(re.search(r"DataLoader|nput", said[0])),
        lambda data: sum(b - a for a, b in loading(data / R4)) < 0.1 * sum(b - a for a, b in loading(data / R0)),
    ),
    Question(
        "How often was aten::conv2d called?",
        (view("ops", R0, more="--filter name=aten::conv2d"),),
        lambda said: rows(said)[0]["calls"],
        lambda data: sum(one["name"] == "aten::conv2d" for one in of(data / R0, "cpu_op", "operator")),
    ),
    Question(
        "How much is copied to the device, MB?",
        (sql(R0, "select sum(bytes) b from kernels where kind = 'memcpy' and name like '%HtoD%'"),),
        lambda said: rows(said)[0]["b"] / 1e6,
        lambda data: sum(int(one["args"]["bytes"]) for one in on_gpu(data / R0) if "HtoD" in one["name"]) / 1e6,
        1e-9,
    ),
    Question(
        "How long are the copies, ms?",
        (view("copies", R0),),
        lambda said: facts(said)["total_ns"] / 1e6,
        lambda data: sum(one["dur"] for one in of(data / R0, "gpu_memcpy", "gpu_memset", "memcpy", "memset")) / 1e3,
        1e-6,
    ),
    Question(
        "How much time goes to the DataLoader per step, ms?",
        (view("overview", R0, more="--top 20"),),
        lambda said: next(row for row in rows(said) if row["category"] == "DataLoader")["time_ns"] / 1e6,
        lambda data: step_of_golden(data, "DataLoader"),
        1e-3,
    ),
    Question(
        "What is the device's utilisation as torch_tb_profiler says it?",
        (view("overview", R0),),
        lambda said: 100 * facts(said)["devices"][0]["utilisation"],
        lambda data: utilisation_of_golden(data),
        2e-3,
    ),
    Question(
        "How many calls to cudaLaunchKernel are there?",
        (view("calls", R0, more="--filter name=cudaLaunchKernel"),),
        lambda said: rows(said)[0]["count"],
        lambda data: sum(one["name"] == "cudaLaunchKernel" for one in of(data / R0, "cuda_runtime", "runtime")),
    ),
    Question(
        "How many activities began in the second 100 ms?",
        (sql(R0, "select count(*) n from kernels where start_ns >= 100000000 and start_ns < 200000000"),),
        lambda said: rows(said)[0]["n"],
        lambda data: began(data / R0, 100_000, 200_000),
    ),
    Question(
        "Which operator of Qwen takes the most kernel time on the H100?",
        (view("roofline", H100, more="--sort device_ns --top 1"),),
        lambda said: rows(said)[0]["op"],
        lambda data: max(
            csv_rows(data / "traces/tracelens_golden/h100" / (Path(H100).name[:-8] + ".csv")),
            key=lambda row: float(row["Kernel Time (µs)_sum"]),
        )["name"],
    ),
    Question(
        "How many GFLOP is one call of it?",
        (view("roofline", H100, more="--sort device_ns --top 1"),),
        lambda said: rows(said)[0]["flops"] / 1e9,
        lambda data: first_of_golden(data, "h100")[0],
        1e-3,
    ),
    Question(
        "How long did it run in all, ms?",
        (view("roofline", H100, more="--sort device_ns --top 1"),),
        lambda said: rows(said)[0]["device_ns"] / 1e6,
        lambda data: first_of_golden(data, "h100")[1] / 1e3,
        1e-3,
    ),
    Question(
        "And on the MI300, ms?",
        (view("roofline", MI300, more="--sort device_ns --top 1"),),
        lambda said: rows(said)[0]["device_ns"] / 1e6,
        lambda data: first_of_golden(data, "mi300")[1] / 1e3,
        1e-3,
    ),
    Question(
        "Which of the two GPUs spends more kernel time on Qwen?",
        (view("kernels", H100), view("kernels", MI300)),
        lambda said: facts(said, 0)["total_ns"] < facts(said, 1)["total_ns"],
        lambda data: sum(one["dur"] for one in on_gpu(data / H100)) < sum(one["dur"] for one in on_gpu(data / MI300)),
    ),
    Question(
        "How many ranks has the job?",
        (view("ranks", DLRM, more="--top 20"),),
        lambda said: len(rows(said)),
        lambda data: len(list((data / DLRM).glob("worker*.json"))),
    ),
    Question(
        "How long do its ranks wait for each other in all, ms?",
        (view("ranks", DLRM, more="--top 20"),),
        lambda said: sum(row["wait_ns"] for row in rows(said)) / 1e6,
        lambda data: sum(waits(data / DLRM).values()),
        0.02,
    ),
    Question(
        "Which rank waits longest?",
        (view("ranks", DLRM, more="--sort wait_ns --top 1"),),
        lambda said: rows(said)[0]["rank"],
        lambda data: max(waits(data / DLRM).items(), key=lambda one: one[1])[0],
    ),
    Question(
        "How long was rank 3 in collectives, ms?",
        (view("ranks", DLRM, more="--top 20"),),
        lambda said: next(row for row in rows(said) if row["rank"] == 3)["comm_ns"] / 1e6,
        lambda data: sum(one[3][1] for one in collectives(data / DLRM)) / 1e3,
        1e-3,
    ),
    Question(
        "What was the SM clock before and after, MHz?",
        (view("diff", f"{CLOCK}/normal", f"{CLOCK}/abnormal", more="--top 1"),),
        lambda said: next(one for one in facts(said)["resources"] if one["metric"] == "gpu_sm_frequency")["mu_b"],
        lambda data: profiled(data / CLOCK / "abnormal", "gpu_sm_frequency"),
        1e-6,
    ),
    Question(
        "What is to blame in a run whose GPU clock was locked?",
        (f"diff {CLOCK}/normal {CLOCK}/abnormal --top 5",),
        lambda said: "clock of GPU 7 fell" in said[0],
        lambda data: "gpu_instability" in CLOCK,
    ),
    Question(
        "What is to blame in a run whose processors were taken?",
        (f"diff {SQUEEZE}/normal {SQUEEZE}/abnormal --top 5",),
        lambda said: bool(re.search(r"Cause .*(CPU|processor)", said[0])),
        lambda data: "cpu_compute" in SQUEEZE,
    ),
    Question(
        "What is to blame in a run whose link was saturated?",
        (f"diff {LINK}/normal {LINK}/abnormal --top 5",),
        lambda said: bool(re.search(r"Cause .*(link|NVLink|memory)", said[0])),
        lambda data: "NVLink" in LINK,
    ),
    Question(
        "What is to blame in a run whose processors were slowed down?",
        (f"diff {SLOW_CPU}/normal {SLOW_CPU}/abnormal --top 5",),
        lambda said: bool(re.search(r"Cause .*CPU (clock|frequency)", said[0])),
        lambda data: "cpu_frequency" in SLOW_CPU,
    ),
    Question(
        "Which function and metric does the reference suspect most?",
        (view("pairs", f"{CLOCK}/normal", f"{CLOCK}/abnormal", more="--pid 944615 --top 1"),),
        lambda said: (rows(said)[0]["function"], rows(said)[0]["metric"]),
        lambda data: (reference(data / CLOCK)[0]["Function Name"], reference(data / CLOCK)[0]["Metric Name"]),
    ),
    Question(
        "What share of a cycle did it take before, %?",
        (view("pairs", f"{CLOCK}/normal", f"{CLOCK}/abnormal", more="--pid 944615 --top 1"),),
        lambda said: rows(said)[0]["beta_a"],
        lambda data: float(reference(data / CLOCK)[0]["β_normal(%)"]),
        1e-6,
    ),
    Question(
        "How many launches has BERT's training step?",
        (view("kernels", BERT),),
        lambda said: facts(said)["launches"],
        lambda data: len(table(data / BERT)),
    ),
    Question(
        "How long do its kernels take in all, ms?",
        (view("kernels", BERT),),
        lambda said: facts(said)["total_ns"] / 1e6,
        lambda data: sum(row[1] for row in table(data / BERT)) / 1e6,
        1e-9,
    ),
    Question(
        "How much of an LLM's kernel time runs at 50% of DRAM bandwidth or more?",
        (sql(LLM, "select sum(case when dram >= 0.5 then dur_ns else 0 end) * 1.0 / sum(dur_ns) s from kernels"),),
        lambda said: rows(said)[0]["s"],
        lambda data: (
            sum(row[1] for row in table(data / LLM) if row[3] >= 0.5) / sum(row[1] for row in table(data / LLM))
        ),
        1e-6,
    ),
    Question(
        "Which of its kernels is launched most often?",
        (view("kernels", LLM, more="--sort count --top 1"),),
        lambda said: rows(said)[0]["name"],
        lambda data: Counter(row[0] for row in table(data / LLM)).most_common(1)[0][0],
    ),
    Question(
        "How much of 15.1 s was an AMD GPU busy?",
        (view("overview", "traces/rocprof/tracelens_908_results.json.gz"),),
        lambda said: facts(said)["devices"][0]["busy"],
        lambda data: 4.233 / 15.122,
        0.01,
    ),
    Question(
        "Which call to HIP takes the most time?",
        (view("calls", "traces/rocprof/sdk_docs_new/hip_api_stats.csv"),),
        lambda said: rows(said)[0]["name"],
        lambda data: max(
            csv_rows(data / "traces/rocprof/sdk_docs_new/hip_api_stats.csv"),
            key=lambda row: int(row["TotalDurationNs"]),
        )["Name"],
    ),
    Question(
        "How many kernels did Nsight Systems record?",
        (view("kernels", NSYS := "traces/nsys_sqlite/power_iteration__baseline.sqlite"),),
        lambda said: facts(said)["by_kind"]["kernel"]["count"],
        lambda data: (
            sqlite3.connect(data / NSYS).execute("select count(*) from CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0]
        ),
    ),
    Question(
        "How warm did a GPU get, °C?",
        (view("metrics", "traces/gpu_timeseries/distracted_gpu_usage_log.csv", more="--filter temperature"),),
        lambda said: max(row["max"] for row in rows(said) if "temp" in row["metric"].lower()),
        lambda data: max(
            float(line.split(",")[-1])
            for line in (data / "traces/gpu_timeseries/distracted_gpu_usage_log.csv").read_text().splitlines()[1:]
            if line.strip()
        ),
    ),
)


def began(path: Path, low: float, high: float) -> int:
    first = min(one["ts"] for one in events(path))
    return sum(low <= one["ts"] - first < high for one in on_gpu(path))


def first_of_golden(data: Path, machine: str) -> tuple[float, float]:
    """GFLOP of a call and kernel time in µs of the operator that takes most."""
    file = data / "traces/tracelens_golden" / machine / (Path(H100).name[:-8] + ".csv")
    row = max(csv_rows(file), key=lambda row: float(row["Kernel Time (µs)_sum"]))
    return float(row["GFLOPS"]), float(row["Kernel Time (µs)_sum"])


def step_of_golden(data: Path, category: str) -> float:
    """torch_tb_profiler's mean time of a category per step, ms."""
    steps_of = views_of(data / "traces/tb_plugin_golden/resnet50_num_workers_0.expected.jsonl")[0]["steps"]
    at = [column.get("name") for column in steps_of["columns"]].index(category)
    return sum(row[at] for row in steps_of["rows"]) / len(steps_of["rows"]) / 1e3


def utilisation_of_golden(data: Path) -> float:
    text = (data / "traces/tb_plugin_golden/resnet50_num_workers_0.expected.jsonl").read_text(encoding="utf-8")
    return float(re.findall(r"GPU Utilization[^0-9]*([0-9.]+) ?%", text)[0])


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all, so that each recording is read once."""
    return tmp_path_factory.mktemp("forty")


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    """What a command printed that several questions are answered from."""
    return {}


def test_there_are_forty() -> None:
    assert len({one.asked for one in QUESTIONS}) == len(QUESTIONS) >= 40


@pytest.mark.parametrize("question", QUESTIONS, ids=[one.asked for one in QUESTIONS])
def test_a_question_is_answered(
    question: Question, data: Path, kept: Path, printed: dict[str, str], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import shlex

    monkeypatch.chdir(data)
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept))
    for command in question.commands:
        if command not in printed:
            assert main(shlex.split(command)) == 0, capsys.readouterr().err
            printed[command] = capsys.readouterr().out
    said = [printed[command] for command in question.commands]
    assert len(said) <= MOST_COMMANDS and sum(map(len, said)) / 4 <= MOST_TOKENS
    answer, known = question.read(said), question.known(data)
    if isinstance(known, float):
        assert answer == pytest.approx(known, rel=question.within), (answer, known)
    else:
        assert answer == known
