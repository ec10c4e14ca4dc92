"""Two runs of which one lacks what a view is about: it is that one which is named, whichever side it is on."""

from __future__ import annotations

import pytest
from runs import host, kernel, run_of, samples, steps

from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.trace import Trace


@pytest.fixture(scope="module")
def whole() -> Trace:
    """A run with everything a step has."""
    launches = [kernel(number, 1_000 * number + 300, 400, stream=7, correlation=number + 1) for number in range(40)]
    copies = [{**kernel(40, 39_800, 100, "Memcpy HtoD (Pinned -> Device)", correlation=41), "kind": "memcpy"}]
    calls = [host("cudaLaunchKernel", 1_000 * number, 200, "runtime", correlation=number + 1) for number in range(41)]
    marks = [host("forward", 1_000 * number, 900, "annotation") for number in range(40)]
    ops = [host("aten::mm", 1_000 * number, 500) for number in range(40)]
    return run_of("whole", kernels=launches + copies, host=sorted(calls + marks + ops, key=lambda row: row["start_ns"]),
                  cycles=steps(*[10_000] * 4))


@pytest.fixture(scope="module")
def bare() -> Trace:
    """A run of nothing but a counter."""
    return run_of("bare", metrics=samples("sm", "GPU 0", (0, 5.0), (100, 7.0), unit="%"))


@pytest.mark.parametrize("first", [True, False], ids=["A lacks it", "B lacks it"])
@pytest.mark.parametrize("name", [
    "overview", "cycles", "kernels", "ops", "timeline", "diff", "idle", "ranks", "ranges", "calls", "copies",
])
def test_the_run_that_lacks_it_is_the_one_named(whole: Trace, bare: Trace, name: str, first: bool) -> None:
    with pytest.raises(CannotAnswer) as refused:
        ask(view(name), (bare, whole) if first else (whole, bare))
    assert str(refused.value).startswith("bare ") and "whole" not in str(refused.value)
    assert not str(refused.value).startswith("bare hold "), "one run holds"


@pytest.mark.parametrize("first", [True, False], ids=["A lacks it", "B lacks it"])
def test_where_one_side_is_an_answer_the_other_is_said_to_have_none(whole: Trace, bare: Trace, first: bool) -> None:
    runs, lacks, has = ((bare, whole), "A", "B") if first else ((whole, bare), "B", "A")
    triage = ask(view("triage"), runs)
    of_bare = [row["finding"] for row in triage.frame.to_dicts() if row["run"] == lacks]
    assert len(of_bare) == 1 and of_bare[0].startswith("Nothing found in the counters")
    assert any(said.startswith(f"{has}: whole: ") for said in triage.summary)
    counters = ask(view("metrics"), runs)
    assert set(counters.summary) == {f"{has}: 0 counters, 0 samples", f"{lacks}: 1 counter, 2 samples"}
    assert counters.frame.height == 1
