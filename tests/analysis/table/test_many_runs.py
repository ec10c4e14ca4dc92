"""Three runs or more, one column each."""

from __future__ import annotations

from runs import kernel, run_of, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.query.many import across, many


def test_runs_on_devices_of_other_numbers_share_their_rows_and_it_is_said() -> None:
    runs = tuple(
        run_of(f"on {number}", cycles=steps(1_000, 1_000), kernels=[
            kernel(at, 1_000 * at + 100, 10 + number, device=f"GPU {number}") for at in range(2)
        ]) for number in (1, 0, 2))
    table = across(many("kernels", runs, Options()))
    assert table.shown().select("on 1", "on 0", "on 2").rows() == [(11, 10, 12)]
    assert table.notes[-2:] == (
        "on 0: GPU 0 is listed as GPU 1, as in on 1.", "on 2: GPU 2 is listed as GPU 1, as in on 1.")


def test_names_that_runs_share_mean_what_they_say() -> None:
    runs = tuple(run_of(label, kernels=[kernel(at, 100 * at, 10, device=f"GPU {at}") for at in devices])
                 for label, devices in (("a", (0, 1)), ("b", (1, 2)), ("c", (0,))))
    shown = across(many("kernels", runs, Options())).shown()
    assert shown["device"].to_list() == ["GPU 0", "GPU 1", "GPU 2"]


def test_cycles_are_in_order_whichever_run_has_them() -> None:
    whole = run_of("whole", cycles=steps(1_000, 1_000, 1_000), kernels=[kernel(at, 1_000 * at, 10) for at in range(3)])
    later = run_of("later", kernels=[kernel(0, 1_000, 10)]).with_tables(cycles=whole.cycles.slice(1))
    table = across(many("cycles", (later, whole, whole), Options()))
    assert table.shown().get_column("cycle").to_list() == sorted(table.shown()["cycle"])
    assert table.shown()["later"].null_count() == 1 and len(table) == 3
