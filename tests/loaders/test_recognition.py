"""What communicates: by record, setting, name or the shape of a whole stream, asked in this order."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from warplens.loaders import recognition, schema
from warplens.loaders.collective_names import BadPattern, Patterns, checked, full_name, kernel_kind
from warplens.loaders.trace import RECOGNITION, Info, Trace

US = 1_000


def launch(index: int, stream: int, name: str, blocks: int = 512, dur: int = 100 * US, **more: Any) -> dict[str, Any]:
    return {"index": index, "start_ns": 200 * US * index, "dur_ns": dur, "name": name, "kind": kernel_kind(name),
            "device": "GPU 0", "stream": stream, "grid": f"{blocks},1,1", **more}


def run(*rows: dict[str, Any]) -> Trace:
    table = pl.DataFrame(list(rows), infer_schema_length=None).lazy()
    return Trace(Info("a", "a", "test"), schema.conform("kernels", table))


def told(trace: Trace, patterns: Patterns | None = None, monkeypatch: Any = None) -> list[tuple[Any, ...]]:
    if patterns is not None:
        monkeypatch.setattr(recognition, "of_settings", lambda: patterns)
    return recognition.recognised(trace).kernels.select("kind", "by").collect().rows()


COMPUTE = [launch(at, 7, "gemm") for at in range(4)]


def beside(**more: Any) -> list[dict[str, Any]]:
    return [launch(at, 9, f"k{at}", 20, **more) for at in range(4, 6)]


def test_a_stream_of_few_long_kernels_of_few_blocks_communicates_where_no_name_says_so() -> None:
    assert told(run(*COMPUTE, *beside()))[4:] == [("collective", "shape")] * 2
    assert told(run(*COMPUTE, *beside()))[:4] == [("kernel", None)] * 4


@pytest.mark.parametrize("rows", [
    [*COMPUTE, *beside(dur=9 * US)],  # too short
    [*COMPUTE, *[launch(at, 9, "k", 33) for at in (4, 5)]],  # too wide
    [*COMPUTE, *[{**one, "grid": None} for one in beside()]],  # no grid is recorded
    [*COMPUTE[:2], *beside()],  # not fewer kernels than another stream
    [{**one, "stream": 7} for one in [*COMPUTE, *beside()]],  # one stream for everything
    [*COMPUTE, *beside(), launch(6, 11, "ncclDevKernel_AllReduce")],  # another kernel names the communication
])
def test_by_shape_nothing_is_taken_that_may_be_something_else(rows: list[dict[str, Any]]) -> None:
    assert not any(by == "shape" for _, by in told(run(*rows)))


def test_a_record_comes_before_a_name_and_a_name_before_a_shape() -> None:
    rows = [*COMPUTE, launch(4, 9, "k", 20, collective="allreduce"), launch(5, 9, "nccl", 20), *beside()]
    assert told(run(*rows))[4:] == [
        ("collective", "record"), ("collective", "name"), ("kernel", None), ("kernel", None)]


def test_settings_add_names_and_take_them_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [*COMPUTE, launch(4, 9, "MyRing", 20), launch(5, 9, "nccl_test", 20), launch(6, 9, "ring_gemm", 20)]
    given = checked({"names": ["myring"], "not": ["nccl_test"], "fused": ["ring_gemm"]})
    trace = run(*rows)
    assert told(trace, given, monkeypatch)[4:] == [("collective", "setting"), ("kernel", None), ("kernel", None)]
    assert recognition.recognised(trace).info.facts[RECOGNITION]["fused"] == ["ring_gemm"]


def test_a_mangled_name_is_searched_by_its_scopes() -> None:
    assert "dpsk::ep::intranode" in full_name("_ZN4dpsk2ep9intranode8dispatchILi8EEEvPi")
    assert kernel_kind("_ZN4dpsk2ep9intranode8dispatchILi8EEEvPi") == "collective"
    assert kernel_kind("all_gather_matmul_kernel") == "kernel" and kernel_kind("alltoall_copy") == "collective"


@pytest.mark.parametrize(("table", "says"), [
    ({"names": ["("]}, r'\[communication\] names: "\(": not a regular expression'), ({"name": []}, "has no name"),
    ({"names": "nccl"}, "a list of regular expressions"), (3, "is a table"),
])
def test_invalid_settings_are_refused_with_their_place(table: Any, says: str) -> None:
    with pytest.raises(BadPattern, match=says):
        checked(table)
