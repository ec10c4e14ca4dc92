"""TensorBoard profiler views: every worker a run, every number in ns, and only what was written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.loader import HEAD_BYTES, Job
from warplens.loaders.tb_views import LOADER
from warplens.loaders.trace import Trace

SUMS = ("name", "kind", "device", "count", "total_ns", "mean_ns", "min_ns", "max_ns", "tensor_cores")
"""Columns of kernel_stats that these reports fill."""

TIP = {"type": "string", "role": "tooltip"}
OVERVIEW: dict[str, Any] = {
    "steps": {
        "columns": [{"name": "Step"}, {"name": "Kernel"}, TIP, {"name": "Other"}, TIP],
        "rows": [["5", 576, "<b>5</b>", 4, ""], ["6", 580, "", 2, ""]],
    },
    "performance": [{"name": "Average Step Time", "value": 581, "children": [{"name": "Kernel", "value": 578}]}],
    "recommendations": "<ul><li>Use <a href='x'>AMP</a>.</li><li>N/A</li></ul>",
    "environments": [{"title": "Device Type", "value": "GPU"}],
    "gpu_metrics": {
        "data": [
            {"title": "GPU 0:", "value": ""},
            {"title": "Name", "value": "V100"},
            {"title": "GPU Utilization", "value": "9.18 %"},
            {"title": "Est. SM Efficiency", "value": "54.68 %"},
            {"title": "Est. Achieved Occupancy", "value": "49.13 %"},
            {"title": "Kernel Time using Tensor Cores", "value": "0.0 %"},
        ]
    },
}
OPERATORS: dict[str, Any] = {
    "metadata": {"sort": "device_self_duration"},
    "data": [
        {"name": "aten::mm", "calls": 3, "device_self_duration": 7, "device_total_duration": 8,
         "host_self_duration": -2, "host_total_duration": 9, "tc_eligible": "Yes", "tc_self_ratio": 0.25},
    ],
}  # fmt: skip
KERNELS: dict[str, Any] = {
    "metadata": {"sort": "Total Duration (us)"},
    "data": {
        "columns": [{"name": name} for name in (
            "Name", "Tensor Cores Used", "Calls", "Total Duration (us)", "Mean Duration (us)", "Max Duration (us)",
            "Min Duration (us)", "Mean Blocks Per SM")],
        "rows": [["ncclAllReduce", "No", 2, 10, 5.5, 7, 3, 1.0], ["gemm", "Yes", 1, 4, 4, 4, 4, None]],
    },
}  # fmt: skip


def pie(**rows: int) -> dict[str, Any]:
    return {"columns": [{"name": "name"}, {"name": "value"}], "rows": [[name, value] for name, value in rows.items()]}


def load(folder: Path, *documents: object, sep: bytes = b"\n") -> tuple[Trace, ...]:
    path = folder / "views.jsonl"
    path.write_bytes(sep.join(map(orjson.dumps, documents)))
    assert LOADER.sniff(path.read_bytes()[:HEAD_BYTES])
    return LOADER.load(Job(path, folder))


def test_all_views_of_a_worker(tmp_path: Path) -> None:
    (trace,) = load(tmp_path, OVERVIEW, {"host_self_time": pie(a=1)}, OPERATORS, KERNELS, {"total": pie(gemm=4)})
    assert trace.breakdown.select("step", "category", "time_ns").collect().rows() == [
        (None, "Kernel", 578_000),
        ("5", "Kernel", 576_000), ("5", "Other", 4_000), ("6", "Kernel", 580_000), ("6", "Other", 2_000),
    ]  # fmt: skip
    assert trace.cycles.select("cycle", "dur_ns").collect().rows() == [(5, 580_000), (6, 582_000)]
    assert trace.operators.collect().rows() == [
        ("aten::mm", 3, 7_000, 8_000, None, 9_000, True, 0.25, None),
    ]
    assert trace.kernel_stats.select(SUMS).collect().rows() == [
        ("ncclAllReduce", "collective", None, 2, 10_000, 5_500.0, 3_000, 7_000, False),
        ("gemm", "kernel", None, 1, 4_000, 4_000.0, 4_000, 4_000, True),
    ]
    (device,) = trace.info.devices
    assert (device.id, device.name) == ("GPU 0", "V100")
    assert device.properties == {
        "utilisation": 0.0918, "sm_efficiency": 0.5468, "occupancy": 0.4913, "tensor_share": 0.0
    }  # fmt: skip
    assert trace.info.facts["recommendations"] == ["Use AMP."]


def test_a_view_that_comes_again_begins_the_next_worker(tmp_path: Path) -> None:
    first, second, third = load(tmp_path, OVERVIEW, KERNELS, OVERVIEW, OVERVIEW, OPERATORS)
    assert [trace.info.label for trace in (first, second, third)] == ["worker 0", "worker 1", "worker 2"]
    assert first.has("kernel_stats") and not second.has("kernel_stats") and third.has("operators")


def test_pies_stand_in_for_missing_tables(tmp_path: Path) -> None:
    pies = {"device_self_time": pie(mm=3), "host_total_time": pie(mm=5, relu=6)}
    (trace,) = load(tmp_path, pies, {"total": pie(gemm=4)})
    columns = ("name", "calls", "device_self_ns", "host_total_ns")
    assert trace.operators.select(columns).collect().rows() == [("mm", None, 3_000, 5_000), ("relu", None, None, 6_000)]
    assert trace.kernel_stats.select("name", "count", "total_ns").collect().rows() == [("gemm", None, 4_000)]
    assert not trace.has("breakdown") and trace.info.devices == ()


def test_rows_of_one_name_are_one_row(tmp_path: Path) -> None:
    (op,) = OPERATORS["data"]
    grouped = {**OPERATORS, "data": [{**op, "input_shape": "[2]"}, {**op, "calls": 4, "input_shape": "[3]"}]}
    columns, (row, other) = KERNELS["data"]["columns"], KERNELS["data"]["rows"]
    by_operator = {**KERNELS, "data": {"columns": columns, "rows": [row, other, [row[0], "Yes", 3, 30, 9, 20, 1, 2.0]]}}
    (trace,) = load(tmp_path, grouped, by_operator)
    assert trace.operators.collect().rows() == [("aten::mm", 7, 14_000, 16_000, None, 18_000, True, None, None)]
    assert trace.kernel_stats.select(SUMS).collect().rows() == [
        ("ncclAllReduce", "collective", None, 5, 40_000, 8_000.0, 1_000, 20_000, True),
        ("gemm", "kernel", None, 1, 4_000, 4_000.0, 4_000, 4_000, True),
    ]


@pytest.mark.parametrize("odd", [None, "text", 3, [1, None], {"columns": 5, "rows": [3]}, {"children": "x"}])
def test_odd_parts_of_a_view_are_passed_over(tmp_path: Path, odd: object) -> None:
    for key in ("steps", "environments", "gpu_metrics", "recommendations"):
        (trace,) = load(tmp_path, {**OVERVIEW, key: odd})
        assert trace.has("breakdown")
    (trace,) = load(tmp_path, {**OVERVIEW, "performance": [odd, {"children": [odd, {"name": "Kernel", "value": 1}]}]})
    assert trace.breakdown.select("step", "category", "time_ns").collect().row(0) == (None, "Kernel", 1_000)


def test_a_document_over_several_lines_and_a_list_of_documents(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_bytes(orjson.dumps(OVERVIEW, option=orjson.OPT_INDENT_2))
    assert LOADER.sniff(path.read_bytes())
    assert LOADER.load(Job(path, tmp_path))[0].has("breakdown")
    path.write_bytes(orjson.dumps([OVERVIEW, KERNELS]))
    assert LOADER.sniff(path.read_bytes())
    assert LOADER.load(Job(path, tmp_path))[0].has("kernel_stats")


def test_what_is_no_view_is_counted(tmp_path: Path) -> None:
    (trace,) = load(tmp_path, OVERVIEW, {"memory": 1})
    assert trace.info.warnings == ("1 documents are of other views and were left out.",)
    (tmp_path / "views.jsonl").write_bytes(orjson.dumps(OVERVIEW) + b"\n" + orjson.dumps(KERNELS)[:100])
    (trace,) = LOADER.load(Job(tmp_path / "views.jsonl", tmp_path))
    assert trace.info.warnings == ("1 lines are not JSON documents and were left out.",)


def test_a_first_document_longer_than_the_head_is_still_recognised() -> None:
    many = {**OPERATORS, "data": OPERATORS["data"] * 1000}
    assert LOADER.sniff(orjson.dumps(many)[:HEAD_BYTES])


@pytest.mark.parametrize("text", [b'{"traceEvents": []}', b'{"data": []}', b"[[1, 2]]", b'{"total": 3}', b"{", b""])
def test_other_json_is_not_claimed(text: bytes) -> None:
    assert not LOADER.sniff(text)


def test_json_without_views_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_bytes(b'{"data": []}')
    with pytest.raises(Unreadable, match="no view"):
        LOADER.load(Job(path, tmp_path))


def test_of_more_than_two_workers_the_first_two_open(tmp_path: Path) -> None:
    load(tmp_path, OVERVIEW, OVERVIEW, KERNELS, OVERVIEW)
    path = str(tmp_path / "views.jsonl")
    first, second = open_run(path, use_cache=False)
    assert (first.info.label, second.info.label) == ("worker 0", "worker 1")
    assert first.info.warnings == (
        "The file holds 3 runs; these are the first two: --worker N takes another, from 0.",
    )
    (third,) = open_run(path, worker=2, use_cache=False)
    assert third.info.label == "worker 2" and third.info.warnings == ()


def test_the_seed_has_two_workers(data: Path, tmp_path: Path) -> None:
    path = data / "seeds/tb_profiler_views_mlu_2workers.jsonl"
    traces = LOADER.load(Job(path, tmp_path))
    kernel = [trace.breakdown.filter(category="Kernel").collect()["time_ns"][0] for trace in traces]
    assert kernel == [576_891_000, 580_157_000]
    assert [trace.operators.collect().height for trace in traces] == [93, 93]
    assert [trace.kernel_stats.collect().height for trace in traces] == [61, 62]
    assert [trace.info.devices[0].id for trace in traces] == ["MLU 0", "MLU 2"]
