"""A part of a run knows what it was cut from, and so does a part of that part."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from warplens.analysis.contract.options import Options
from warplens.analysis.cycles.scope import scoped, scoped_any_cycle, with_host_of_parent
from warplens.analysis.cycles.whole import whole_cycles
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace


@pytest.fixture(scope="module")
def run(samples: Path) -> Trace:
    (run,) = open_run(samples / "demo" / "normal.json.gz", use_cache=False)
    return run


def test_every_part_is_part_of_the_run_it_was_cut_from(run: Trace) -> None:
    assert run.part_of is None
    cycle = scoped(run, Options(cycle=3))
    assert cycle.part_of is not None and cycle.part_of.parent is run and cycle.part_of.one_cycle
    (kind,) = whole_cycles(run, Options(), "a")
    assert kind.part.part_of is not None and kind.part.part_of.parent is run and not kind.part.part_of.one_cycle
    window = scoped_any_cycle(run, Options(from_ns=0, to_ns=10**12))
    assert window.part_of is not None and window.part_of.parent is run
    again = scoped(window, Options(cycle=3))
    assert again.part_of is not None and again.part_of.parent is window


def test_a_part_of_a_part_keeps_its_parent(run: Trace) -> None:
    cycle = scoped(run, Options(cycle=3))
    assert cycle.with_tables(kernels=cycle.kernels.head(2)).part_of is cycle.part_of


def test_work_launched_outside_of_a_part_is_joined_with_the_host_side_of_its_parent(run: Trace) -> None:
    cycle = scoped(run, Options(cycle=3))
    assert with_host_of_parent(cycle) is None
    part = cycle.part_of
    assert part is not None
    on_the_device = replace(cycle.with_tables(), part_of=replace(part, launched_outside=True))
    whole = with_host_of_parent(on_the_device)
    assert whole is not None and whole.host is run.host and with_host_of_parent(whole) is None
    later = on_the_device.with_tables(kernels=on_the_device.kernels.head(2))
    assert (again := with_host_of_parent(later)) is not None and again.host is run.host
