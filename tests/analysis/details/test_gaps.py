"""The details of a gap: of a deep stack what the program did in the gap, not the frames around all of it."""

from __future__ import annotations

from runs import host, kernel, run_of

from warplens.analysis.contract.options import Options
from warplens.analysis.details.gaps import gap_sections
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.trace import Trace

FRAMES = 20


def deep() -> Trace:
    """Two kernels 10 µs apart, launched below many frames; between them the host signs, then runs an operator."""
    frames = [host(f"model.py({line}): frame_{line}", line, 100_000 - 2 * line, "python") for line in range(FRAMES)]
    return run_of(
        kernels=[kernel(0, 10_000, 1_000, "a", correlation=1), kernel(1, 21_000, 1_000, "b", correlation=2)],
        host=[
            *frames, host("cudaLaunchKernel", 9_000, 100, "runtime", correlation=1),
            host("inspect.py(3346): signature", 12_000, 6_000, "python"), host("parse", 12_500, 2_000, "python"),
            host("aten::addmm", 19_000, 2_500), host("cudaLaunchKernel", 20_500, 100, "runtime", correlation=2),
        ],
    )  # fmt: skip


def test_frames_around_all_of_a_gap_are_counted_and_calls_stand_below_their_callers() -> None:
    run = deep()
    gap = ask(view("idle"), (run,), Options()).frame.row(0, named=True)
    section = gap_sections(gap, (run,), Options())[0]
    assert section.title == f"The launching thread over the gap, inside {FRAMES - 2} more calls"
    assert [name.strip().split(" ")[-1] for name, _, _ in section.rows] == [
        f"frame_{FRAMES - 2}", f"frame_{FRAMES - 1}", "signature", "parse", "aten::addmm", "cudaLaunchKernel",
    ]
    assert section.rows[2][2] == "6.00 µs"
