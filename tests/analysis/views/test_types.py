"""The view of operator types: sums by the type that the recorder files kernels under."""

from __future__ import annotations

from typing import Any

import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.details.row_details import details
from warplens.analysis.views import view


def ran(name: str, start: int, dur: int, op_type: str | None = "TransData", core: str | None = "AI_VECTOR_CORE",
        **more: Any) -> dict[str, Any]:
    return {"index": start, "name": name, "kind": "kernel", "start_ns": start, "dur_ns": dur, "device": "NPU 0",
            "op_type": op_type, "core": core, **more}


KERNELS = [ran("trans_0", 0, 10), ran("trans_1", 20, 30, tensor=0.5), ran("MatMul_3", 60, 60, "MatMulV2", "AI_CORE"),
           ran("hcom_allReduce", 200, 1000, None, None)]


def test_a_type_is_one_row_however_many_kernels_it_has(run_of, asked):
    rows = asked("types", run_of(kernels=KERNELS)).frame.to_dicts()
    assert [(row["op_type"], row["core"], row["count"], row["total_ns"], row["kernels"]) for row in rows] == [
        ("MatMulV2", "AI_CORE", 1, 60, 1), ("TransData", "AI_VECTOR_CORE", 2, 40, 2)]
    assert rows[1]["share"] == pytest.approx(0.4)  # what has no type is in no share
    assert (rows[1]["min_ns"], rows[1]["mean_ns"], rows[1]["max_ns"]) == (10, 20.0, 30)
    assert rows[1]["tensor"] == pytest.approx(0.5) and rows[0]["tensor"] is None


def test_a_row_opens_into_its_kernels(run_of, asked):
    run = run_of(kernels=KERNELS)
    kernels, longest = details(view("types"), asked("types", run), 1, (run,), Options()).sections[1:3]
    assert (kernels.title, [row[0] for row in kernels.rows]) == ("Kernels", ["trans_1", "trans_0"])
    assert (longest.title, len(longest.rows)) == ("Longest", 2)


def test_a_recording_without_types_says_what_has_them(run_of, asked):
    with pytest.raises(CannotAnswer, match="names no types of operators"):
        asked("types", run_of(kernels=KERNELS[3:]))
