"""A copy blocks its call where the call always waits, or where the host stages pageable memory in it."""

from __future__ import annotations

import pytest
from runs import host, kernel, run_of

from warplens.analysis.idle.blocking_copies import blocking_copies


@pytest.mark.parametrize(("call", "copy", "long", "blocks"), [
    ("cudaMemcpyAsync", "Memcpy HtoD (Pageable -> Device)", True, True),
    ("cudaMemcpyAsync", "Memcpy HtoD (Pinned -> Device)", True, False),
    ("cudaMemcpyAsync", "Memcpy HtoD (Pageable -> Device)", False, False),
    ("cudaMemcpy", "Memcpy DtoH (Device -> Pinned)", True, True),
    ("cudaLaunchKernel", "Memcpy HtoD (Pageable -> Device)", True, False),
])
def test_a_copy_blocks_a_call_that_returns_after_it(call: str, copy: str, long: bool, blocks: bool) -> None:
    run = run_of(host=[host(call, 0, 100_000 if long else 10_000, "runtime", correlation=1)],
                 kernels=[kernel(0, 20_000, 60_000, copy, kind="memcpy", correlation=1, pid=1, stream=7)])
    assert blocking_copies(run).height == int(blocks)
