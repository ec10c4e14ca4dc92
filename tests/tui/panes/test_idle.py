"""The causes of a device's idle time as parts of a bar."""

from __future__ import annotations

from warplens.tui.panes.idle import _parts


def test_small_causes_are_one_part_and_all_of_them_sum_to_the_idle_time() -> None:
    assert _parts({"idle_ns": 1000, "causes": {"python": 900, "op": 97, "sync": 3}}) == [
        ("python", 900), ("op", 97), ("other", 3)]


def test_a_device_that_never_waits_has_no_parts() -> None:
    assert _parts({"idle_ns": 0, "causes": {}}) == []
