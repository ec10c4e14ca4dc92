"""Findings: data that a rule takes from the evidence, one sentence a fact, and nothing that the figures do not hold."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from runs import host, kernel, run_of

from warplens.analysis.communication.devices import Communication, communication
from warplens.analysis.findings.evidence.measured import Measured
from warplens.analysis.findings.evidence.waits import Waits
from warplens.analysis.findings.rule import Evidence, Finding
from warplens.analysis.findings.rules import RULES, findings

BLANK = Evidence(1, 1000.0, {}, [], [])


def checked(evidence: Evidence) -> list[Finding]:
    return [finding for finding in findings(evidence) if finding.severity != "unchecked"]


def said(evidence: Evidence) -> list[str]:
    return [finding.sentence for finding in checked(evidence)]


def device(name: str, **gauges: Any) -> dict[str, Any]:
    return {"device": name, "utilisation": None, "sm_efficiency": None, "tensor_share": None, **gauges}


def test_every_rule_has_a_name_of_its_own_and_finds_nothing_where_nothing_is_known() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert checked(BLANK) == []


def test_eight_devices_are_one_line() -> None:
    busy = [{"device": f"GPU {n}", "busy": 0.3 + n / 100, "of_ns": None} for n in range(8)]
    assert said(replace(BLANK, busy=busy)) == ["GPU 7 is busy 37% of the time, GPU 0 30%, the others between."]
    steps = replace(BLANK, busy=busy[:1], in_steps=True)
    assert said(steps) == ["GPU 0 is busy 30% of a step."]
    short = replace(steps, busy=[busy[0] | {"of_ns": 45_000}])
    assert said(short) == ["GPU 0 is busy 30% of the 45.00 µs from its first to its last activity."]
    assert len(checked(replace(BLANK, busy=busy))[0].rows) == 8


def test_a_finding_has_its_cost_and_promises_nothing() -> None:
    found = checked(replace(BLANK, times={"DataLoader": 600.0}))
    assert [(one.rule, one.cost_ns, one.time_to_win_ns) for one in found] == [("input", 600.0, None)]
    assert "cost_ns" not in found[0].fact


def test_a_run_is_bound_by_input_only_where_most_idle_time_goes_to_it() -> None:
    assert said(replace(BLANK, times={"DataLoader": 80.0, "Other": 20.0}))[0].startswith("Input-bound:")
    assert said(replace(BLANK, times={"DataLoader": 80.0, "Other": 500.0}))[0].startswith("Input is late:")


def test_communication_is_what_devices_did_and_not_the_calls_that_asked_for_it() -> None:
    asks = [host("nccl:all_reduce", 0, 900, "annotation")]
    assert communication(run_of(host=asks)) == []
    launches = [kernel(0, 0, 100, "ncclAllReduce", kind="collective"), kernel(1, 60, 100),
                kernel(2, 300, 50, "ncclAllReduce", kind="collective"), kernel(3, 0, 900, "copy", kind="memcpy")]
    found = communication(run_of(host=asks, kernels=launches))
    assert found == [Communication("GPU 0", None, 150, 110)]
    assert found[0].overlap == 1 - 110 / 150


def test_exposed_communication_is_one_line_for_all_devices() -> None:
    talks = (Communication("GPU 0", 0, 100, 60), Communication("GPU 1", 1, 300, 200))
    assert said(replace(BLANK, times={"Kernel": 100.0}, communication=talks)) == [
        "Exposed communication: 2 devices wait 130 ns of 1.00 µs a step for communication that no kernel overlaps "
        "(mean; most on GPU 1, 200 ns)."
    ]
    assert said(replace(BLANK, times={"Communication": 900.0})) == []


def test_activities_before_their_launch_are_remarked() -> None:
    early = replace(BLANK, early=113, launched=179)
    clocks = "clocks of host and device disagree: 113 of 179 device activities begin before their launch"
    assert said(early)[0] == f"The {clocks}, so the causes of idle time are unknown."
    idle = Waits("GPU 0", 1, 8_190_000, 7_330_000, {"unknown": 7_330_000}, in_steps=True)
    assert said(replace(early, measured=Measured(waits=idle)))[0] == (
        f"GPU 0 idles 7.33 of 8.19 ms a step; for what is unknown, because the {clocks}.")
    assert said(replace(BLANK, early=1, launched=179)) == []
