"""What a log of counters says of each device."""

from __future__ import annotations

import pytest
from runs import run_of, samples

from warplens.analysis.metrics.findings import FEWEST, counter_findings

S = 1_000_000_000


def log(metric: str, *values: float, device: str | None = "GPU 0", unit: str = "%") -> list[dict[str, object]]:
    return samples(metric, device, *((at * S, value) for at, value in enumerate(values)), unit=unit)


def said(*tables: list[dict[str, object]]) -> list[str]:
    return [one.sentence for one in counter_findings(run_of(metrics=[row for table in tables for row in table]))]


def test_a_device_that_stands_idle() -> None:
    assert said(log("utilization.gpu", *[0.0] * 15, *[90.0] * 5)) == [
        "GPU 0 is idle (utilisation at most 5%) for 75% of 19.00 s."]
    assert said(log("utilization.gpu", *[0.0] * 9, *[90.0] * 11)) == []


def test_a_clock_that_falls_under_load_and_not_one_that_falls_without() -> None:
    clocks = [1980.0] * 12 + [1200.0] * 8
    use, clock, warm = (log("sm", *[95.0] * 20), log("pclk", *clocks, unit="MHz"),
                        log("gtemp", *[60.0] * 12, *[94.0] * 8, unit="C"))
    assert said(use, clock, warm) == [
        "GPU 0: the SM clock falls to 1,200 MHz in 40% of the samples under load, at 94 °C; its highest is 1,980 MHz: "
        "thermal or power throttling."]
    assert said(log("sm", *[95.0] * 12, *[20.0] * 8), clock) == []
    assert said(use, log("pclk", *sorted(clocks), unit="MHz")) == []


@pytest.mark.parametrize(("most", "sentences"), [
    (79e9, ["GPU 0 fills its memory: 73.6 GiB of 74.5 GiB used at most."]), (70e9, [])])
def test_memory_that_fills(most: float, sentences: list[str]) -> None:
    assert said(log("memory.used", 1e9, most, unit="B"), log("memory.total", 80e9, 80e9, unit="B")) == sentences


def test_a_power_limit_that_is_reached() -> None:
    tables = (log("utilization.gpu", *[99.0] * 20), log("power.draw", *[400.0] * 10, *[698.0] * 10, unit="W"),
              log("power.limit", *[700.0] * 20, unit="W"))
    assert said(*tables) == ["GPU 0 runs at its power limit of 700 W in 50% of the samples under load."]


def test_nothing_of_few_samples_or_of_devices_without_a_name() -> None:
    assert said(log("utilization.gpu", *[0.0] * (FEWEST - 1))) == []
    assert said(log("utilization.gpu", *[0.0] * 20, device=None)) == []
    assert said(log("loss", *[0.0] * 20)) == []
