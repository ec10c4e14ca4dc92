"""A copy blocks the call that covers it: one that always waits, that stages pageable memory, or that is mostly copy."""

from __future__ import annotations

import pytest
from runs import host, kernel, run_of

from warplens.analysis.idle.blocking_copies import blocking_copies

STAGED, PINNED = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"


@pytest.mark.parametrize(("call", "copy", "long", "took", "blocks"), [
    ("cudaMemcpyAsync", STAGED, 100_000, 20_000, True),
    ("cudaMemcpyAsync", PINNED, 100_000, 20_000, False),
    ("cudaMemcpyAsync", PINNED, 100_000, 60_000, True),  # most of the call is its copy
    ("cudaMemcpyAsync", STAGED, 30_000, 60_000, False),  # it returned while the copy ran
    ("cudaMemcpy", PINNED, 100_000, 20_000, True),
    ("cudaLaunchKernel", STAGED, 100_000, 20_000, False),
])
def test_a_copy_blocks_the_call_that_covers_it(call: str, copy: str, long: int, took: int, blocks: bool) -> None:
    run = run_of(host=[host(call, 0, long, "runtime", correlation=1)],
                 kernels=[kernel(0, 20_000, took, copy, kind="memcpy", correlation=1, pid=1, stream=7)])
    assert blocking_copies(run).height == int(blocks)
