"""What all rows share is said once, what alone tells rows apart is never dropped, and moments have digits enough."""

from __future__ import annotations

from runs import kernel, run_of

from warplens.analysis.contract.options import Options
from warplens.analysis.core import units
from warplens.analysis.query.ask import ask
from warplens.analysis.query.report import report
from warplens.analysis.table.filters import Filter
from warplens.analysis.table.table import Table
from warplens.analysis.views.kernels import VIEW as KERNELS
from warplens.analysis.views.launches import VIEW as LAUNCHES
from warplens.analysis.views.ranks import VIEW as RANKS


def kernels(*devices: str) -> Table:
    run = run_of(kernels=[
        kernel(at, 1_000 * at, 500, name, device=device)
        for at, (name, device) in enumerate((name, device) for name in ("gemm", "copy") for device in devices)
    ])
    return ask(KERNELS, (run,))


def test_a_value_that_is_the_same_on_every_row_is_said_once() -> None:
    table = kernels("GPU 0")
    assert table.same == (("kind", "kernel"), ("device", "GPU 0"))
    assert {column.name for column in table.columns if column.order is None} >= {"kind", "device"}


def test_a_column_that_differs_is_not_common_and_never_dropped_where_it_alone_tells_rows_apart() -> None:
    table = kernels("GPU 0", "GPU 1")
    assert table.same == (("kind", "kernel"),)
    assert {column.name for column in table.columns if column.order == 0} >= {"device", "name"}


def test_moments_have_the_digits_that_tell_rows_apart() -> None:
    run = run_of(kernels=[kernel(at, 1_000_000_000 + 12_000 * at, 5_000) for at in range(30)])
    table = ask(LAUNCHES, (run,))
    (column,) = (column for column in table.columns if column.name == "start_ns")
    assert len({units.short(start, column) for start in table.frame["start_ns"]}) == 30


def test_the_name_is_found_as_it_is_shown_and_as_it_was_recorded() -> None:
    raw = ("void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>, std::array<char*, 2ul> >"
           "(int, at::native::MulFunctor<float>, std::array<char*, 2ul>)")
    run = run_of(kernels=[kernel(0, 0, 500, raw), kernel(1, 1_000, 500, "gemm")])
    shown = report("kernels", (run,), Options(), name_width=40).frame
    (short,) = (text for text, name in zip(shown["shown"], shown["name"], strict=True) if name == raw)
    assert "native" not in short and len(short) <= 40
    for wanted in (short, "vectorized_elementwise_kernel<4"):
        found = report("kernels", (run,), Options(), condition=Filter(wanted)).shown()["name"]
        assert found.to_list() == [raw], wanted


def test_an_elastic_column_without_a_value_is_not_listed_and_the_name_always_is() -> None:
    run = run_of(kernels=[kernel(at, 1_000 * at, 500, device=f"GPU {at % 2}") for at in range(4)])
    listed = {column.name for column in ask(RANKS, (run,)).columns if column.order is not None}
    assert not listed & {"call", "line", "state"} and "device" in listed
