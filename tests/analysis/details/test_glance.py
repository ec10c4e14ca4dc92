"""What stands beside a list says of a row what a plain look at the recording would, from one look at all of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from runs import host, kernel, run_of, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.sections import Detail
from warplens.analysis.core.distribution import THINNED, histogram, sorted_histogram
from warplens.analysis.core.names.short_name import short_name
from warplens.analysis.details.cycle_differences import LEAST, differences
from warplens.analysis.details.glances import kernel_glance
from warplens.analysis.details.row_details import details, glance_of, kernel_sections
from warplens.analysis.kernels.launch_index import launch_index
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.trace import Device, Trace


def told(name: str, *runs: Trace, position: int = 0) -> dict[str, Any]:
    """The sections beside a row, by title."""
    found: Detail = glance_of(view(name), runs, Options())(ask(view(name), runs, Options()), position)
    return {section.title: section for section in found.sections}


whole = st.lists(st.integers(0, 10**6), min_size=1, max_size=200)


@given(whole, whole)
def test_numbers_in_order_have_the_histogram_of_any_order(a: list[int], b: list[int]) -> None:
    sides = [np.sort(np.array(values)) for values in (a, b)]
    quick, plain = sorted_histogram(*sides), histogram(*(side.astype(np.float64) for side in sides))
    assert quick["edges_ns"][0] == plain["edges_ns"][0] and quick["edges_ns"][-1] == plain["edges_ns"][-1]
    for side, values in zip("ab", sides, strict=True):
        assert quick[side] == np.histogram(values, quick["edges_ns"])[0].tolist()


def test_of_many_numbers_every_one_is_counted() -> None:
    values = np.sort(np.random.default_rng(1).integers(1_000, 90_000, 20 * THINNED)).astype(np.uint32)
    assert sum(sorted_histogram(values)["a"]) == len(values)


def work(steps_of: int = 6, slow: int = -1) -> Trace:
    """Steps of a kernel by two operators and a copy; the slow one has a kernel more and waits for its input."""
    kernels: list[dict[str, Any]] = []
    slices: list[dict[str, Any]] = []
    for step in range(steps_of):
        begin, correlation = step * 10_000, 10 * step
        if step == slow:
            slices.append(host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin, 4_000, "op"))
        for at, (op, name) in enumerate((("aten::mm", "gemm"), ("aten::relu", "gemm"), ("aten::copy_", "copy"))):
            start = begin + 5_000 + 1_000 * at
            slices += [host("model.py(7): forward", start, 400, "python"), host(op, start + 10, 300),
                       host("cudaLaunchKernel", start + 20, 50, "runtime", correlation=correlation + at + 1)]
            kernels.append(kernel(len(kernels), start + 100, 200 + 10 * at, name, correlation=correlation + at + 1,
                                  stream=7))
        if step == slow:
            slices.append(host("cudaLaunchKernel", begin + 9_000, 50, "runtime", correlation=correlation + 9))
            kernels.append(kernel(len(kernels), begin + 9_100, 700, "extra", correlation=correlation + 9, stream=7))
    return run_of(kernels=kernels, host=slices, cycles=steps(*[10_000] * steps_of))


def test_a_kernel_tells_its_distribution_and_who_launched_it() -> None:
    sections = told("kernels", work())
    assert sections["Latency"].rows == (("12", "200 ns", "210 ns", "210 ns", "210 ns"),)
    assert sum(sections["Latency"].shape["a"]) == 12
    assert sections["Launched by"].rows == (
        ("aten::relu", "model.py:7 forward", "6", "1.26 µs"), ("aten::mm", "model.py:7 forward", "6", "1.20 µs"),
    )


def test_two_runs_stand_over_each_other() -> None:
    sections = told("kernels", work(), work(8))
    assert [row[:2] for row in sections["Latency"].rows] == [("A", "12"), ("B", "16")]
    assert (sum(sections["Latency"].shape["a"]), sum(sections["Latency"].shape["b"])) == (12, 16)
    assert {"Launched by · A", "Launched by · B"} < sections.keys()


def test_a_kernel_of_two_devices_is_found_on_each_and_on_both() -> None:
    run = run_of(kernels=[kernel(n, 100 * n, 10 + n, device=f"GPU {n % 2}") for n in range(4)])
    index = launch_index(run, run)
    assert [index.durations(index.groups("gemm", device=f"GPU {n}")).tolist() for n in (0, 1)] == [[10, 12], [11, 13]]
    assert index.durations(index.groups("gemm")).tolist() == [10, 11, 12, 13]
    assert index.groups("nobody") == [] and len(index.durations([])) == 0 and index.callers([0]).is_empty()


def test_details_of_a_pair_are_of_the_devices_that_are_compared() -> None:
    """B ran on GPU 2 and 3 what A ran on GPU 0 and 1: a row has A's name of the device."""
    runs = []
    for first in (0, 2):
        run = run_of(kernels=[kernel(n, 100 * n, 10 + n + first, device=f"GPU {first + n % 2}") for n in range(4)])
        devices = tuple(Device(f"GPU {first + n}") for n in range(2))
        runs.append(replace(run, info=replace(run.info, devices=devices)))
    row = {"name": "gemm", "kind": "kernel", "device": "GPU 1"}
    percentiles = next(one for one in kernel_sections(row, tuple(runs), Options()) if one.title == "Percentiles")
    assert percentiles.rows == (
        ("launches", "2", "2"), ("min", "11 ns", "13 ns"), ("p50", "11 ns", "13 ns"), ("max", "13 ns", "15 ns"))


def test_a_row_summed_over_devices_tells_what_ran_on_each() -> None:
    run = run_of(kernels=[kernel(n, 100 * n, 10 * (1 + n % 2), device=f"GPU {n % 2}") for n in range(5)])
    row = {"name": "gemm", "kind": "kernel"}
    for sections in (kernel_glance((run,), Options())(row), kernel_sections(row, (run,), Options())):
        (devices,) = (one for one in sections if one.title == "By device")
        assert devices.rows == (("GPU 1", "2", "40 ns", "20 ns"), ("GPU 0", "3", "30 ns", "10 ns"))
    assert "By device" not in [one.title for one in kernel_glance((run,), Options())(row | {"device": "GPU 1"})]


def test_a_collective_without_the_other_ranks_tells_its_launches() -> None:
    run = run_of(kernels=[kernel(n, 100 * n, 10, "ncclDevKernel_AllReduce_Sum", kind="collective") for n in range(4)])
    sections = told("collectives", run, run)
    assert sections["Percentiles"].columns == ("", "A", "B") and sections["Longest · B"].rows[0][2] == "10 ns"


def test_a_cycle_says_what_made_it_different() -> None:
    sections = told("cycles", work(slow=3), position=3)
    rows = {row[0]: row[1:] for row in sections["What is different"].rows}
    assert rows["extra"] == ("700 ns", "+700 ns", "1 of 0")
    assert rows["idle: DataLoader (input)"][:2] == ("4.00 µs", "+4.00 µs")  # not the whole gap, of which it is most
    assert "gemm" not in rows and "copy" not in rows


def test_the_kernels_of_a_cycle_have_the_names_that_lists_give_them() -> None:
    tensile = [f"Cijk_Alik_Bljk_BBS_BH_Bias_MT32x32x256_MI16x16x16x1_SN_NTA{tuned}_WG32_8_1" for tuned in (0, 4)]
    run = run_of(cycles=steps(1_000), kernels=[kernel(at, 100 * at, 50 - at, name) for at, name in enumerate(tensile)])
    sections = details(view("cycles"), ask(view("cycles"), (run,), Options()), 0, (run,), Options()).sections
    [kernels] = [one.rows for one in sections if "most time" in one.title]
    assert [row[0] for row in kernels] == ["gemm bf16 32x32x256 TN bias ·NTA0", "gemm bf16 32x32x256 TN bias ·NTA4"]


def test_a_cycle_like_the_others_says_so() -> None:
    sections = told("cycles", work(), position=2)
    assert sections["What is different"].rows == (("", "no kernel and no wait differs"),)


def test_the_first_step_waited_from_its_mark_on_as_the_others_did() -> None:
    work = [kernel(at, 100 * at + (90 if at == 0 else 10), 5) for at in range(8)] + [kernel(9, 800, 5)]
    known = differences(run_of(kernels=work, cycles=steps(*[100] * 9)), Options())
    first, second = (known.of(cycle, None, 3) for cycle in (0, 1))
    assert first is not None and second is not None
    assert (first.idle_ns, first.usual_idle_ns, second.idle_ns) == (95, 95.0, 95)


def test_with_too_few_cycles_nothing_is_called_usual() -> None:
    run = work(LEAST - 1)
    known = differences(run, Options())
    assert known.of(0, None, 5) is None and known.of(99, None, 5) is None
    assert told("cycles", run)["Cycle 0"].rows[0][1].startswith("too few")


def test_an_operator_tells_its_kernels_and_lines() -> None:
    sections = told("ops", work())
    assert sections["Kernels it launched"].rows == (("copy", "6", "1.32 µs"),)
    assert sections["Called from"].rows == (("model.py:7 forward", "6", "1.32 µs"),)


def test_a_launch_tells_its_caller_and_its_place_among_its_like() -> None:
    sections = told("launches", work(), position=1)
    rows = dict(sections["This launch"].rows)
    assert (rows["operator"], rows["Python line"], rows["launched"]) == (
        "aten::relu", "model.py:7 forward", "80 ns before it began")
    assert sections["Among the launches of its kernel"].rows[0][1].endswith("the longest")


def test_a_gap_shows_what_ran_in_it_and_of_what_took_all_of_it_only_the_innermost() -> None:
    sections = told("idle", work(slow=1))  # of equally long gaps the first is shown first
    assert dict(sections["This gap"].rows)["ended by"] == "gemm"
    title = next(title for title in sections if title.startswith("The launching thread"))
    assert any("DataLoader" in row[0] for row in sections[title].rows)


def test_a_changed_function_shows_both_runs_launches_and_cycles() -> None:
    runs = work(10), work(12, slow=5)
    table = ask(view("diff"), runs, Options())
    kernel = next(at for at, row in enumerate(table.window(0, len(table), ["kind"])) if row[0] == "kernel")
    sections = told("diff", *runs, position=kernel)
    assert {"Confidence", "Latency", "Time per cycle, in order"} <= sections.keys()
    cycles = sections["Time per cycle, in order"].rows
    assert [row[0] for row in cycles] == ["A", "B"] and [len(row[1]) for row in cycles] == [10, 12]


@pytest.mark.parametrize("frame, line", [
    ("transformers/models/bert/modeling_bert.py(364): forward", "modeling_bert.py:364 forward"),
    ("C:\\code\\net.py(3): <module>", "net.py:3 <module>"), ("<built-in method mm of type/x>",) * 2,
])
def test_a_line_is_told_without_its_folders(frame: str, line: str) -> None:
    assert short_name(frame) == line
