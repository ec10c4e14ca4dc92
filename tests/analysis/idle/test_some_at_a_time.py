"""Gaps are explained some at a time, from the slices near to them: the causes are those of all gaps at once."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from runs import host, kernel, run_of

from warplens.analysis.idle import attribution
from warplens.analysis.idle import host as host_side
from warplens.analysis.idle.attribution import Idle, idle_of

US = 1_000
NAMES = {
    "op": ("aten::mm", "enumerate(DataLoader)#1"), "python": ("train.py(3): loop", "torch/nn.py(9): call"),
    "runtime": ("cudaLaunchKernel", "cudaStreamSynchronize", "cudaMalloc", "cudaMemcpy"), "sched": ("on CPU",),
    "overhead": ("CUPTI buffer",), "annotation": ("step",),
}
moments = st.one_of(st.integers(0, 400), st.integers(0, 20)).map(lambda at: at * US // 3)
hostile = st.one_of(moments, moments, st.sampled_from([-(2**40), -5, 2**40]))


@st.composite
def slices(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(sorted(NAMES)))
    correlation = draw(st.integers(0, 9)) if kind == "runtime" else None
    return host(draw(st.sampled_from(NAMES[kind])), draw(hostile), draw(hostile), kind, correlation=correlation,
                tid=draw(st.sampled_from([1, 1, 2])), pid=7)


@st.composite
def kernels(draw: st.DrawFn, index: int) -> dict[str, Any]:
    return kernel(index, draw(moments) * 2, draw(moments) // 9, correlation=draw(st.integers(0, 9)),
                  device=draw(st.sampled_from(["GPU 0", "GPU 0", "GPU 1"])))


def idle(rows: list[dict[str, Any]], activities: list[dict[str, Any]]) -> Idle:
    run = run_of(host=rows, kernels=activities)
    found = idle_of(run, run)
    assert found is not None
    return found


@settings(max_examples=settings().max_examples // 2)  # half a second each
@given(st.lists(slices(), min_size=1, max_size=20), st.integers(1, 12).flatmap(
    lambda count: st.tuples(*(kernels(index) for index in range(count)))))
def test_however_many_gaps_at_once_the_account_is_the_same(
    rows: list[dict[str, Any]], activities: tuple[dict[str, Any], ...]
) -> None:
    whole = idle(rows, [*activities])
    for at_once, block in ((1, 1), (2, 3), (5, 2)):
        with mock.patch.object(attribution, "AT_ONCE", at_once), mock.patch.object(host_side, "_BLOCK", block):
            some = idle(rows, [*activities])
        assert_frame_equal(some.gaps.collect(), whole.gaps.collect(), categorical_as_str=True)
        assert (some.devices, some.notes) == (whole.devices, whole.notes)


@pytest.mark.parametrize("block", [1, 3, 1 << 16])
def test_what_began_long_before_the_gaps_still_explains_them(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribution, "AT_ONCE", 1)
    monkeypatch.setattr(host_side, "_BLOCK", block)
    rows = [host("train.py(3): loop", 0, 900 * US, "python")]
    for at in range(8):
        rows.append(host("cudaLaunchKernel", (100 * at + 90) * US, US, "runtime", correlation=at + 1))
    found = idle(rows, [kernel(at, (100 * at + 95) * US, US, correlation=at + 1) for at in range(8)])
    assert found.devices[0].causes["python"] == 7 * 94 * US
