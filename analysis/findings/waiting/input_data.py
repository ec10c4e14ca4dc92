"""Input-bound: the host waits for input data."""

from __future__ import annotations

from msgspec import Struct

from ..evidence.waits import Waits
from ..rule import BLAME, WAITING, Evidence, PartOfStep, Rule, Unchecked


class InputWait(Struct, frozen=True):
    """Time in which only the DataLoader ran, ns per step; from the causes of idle time, ns in all, if ``waits`` is set.
    ``bound``: whether it is a large part of the idle time (``BLAME``)."""

    waited_ns: float
    part: PartOfStep
    steps: int
    bound: bool
    waits: Waits | None = None


def _find(evidence: Evidence) -> InputWait | Unchecked | None:
    waits = evidence.measured.waits
    if waits is not None and evidence.doubt is not None:
        return Unchecked(evidence.doubt)
    if waits is not None and waits.share(waits.input.idle_ns) > WAITING:
        loaded = waits.input.idle_ns
        return InputWait(loaded, evidence.part, 1, loaded > BLAME * waits.idle_ns, waits)
    # no gaps exist before a device's first and after its last activity, but input can be late there too
    waited = evidence.times.get("DataLoader", 0.0)
    if not evidence.step_ns or waited <= WAITING * evidence.step_ns:
        return None
    return InputWait(waited, evidence.part, max(evidence.steps_each, 1), waited > BLAME * evidence.idle_ns)


def _sentence(wait: InputWait) -> str:
    what, waits = "Input-bound" if wait.bound else "Input is late", wait.waits
    if waits is None:
        return f"{what}: the host waits for the DataLoader {wait.part.of(wait.waited_ns)}."
    return (f"{what}: {waits.who} waits {waits.of(wait.waited_ns)} for the DataLoader "
            f"({waits.of_idle(wait.waited_ns)}).")


RULE = Rule(
    "input", "problem", _find, _sentence, rows=lambda wait: () if wait.waits is None else wait.waits.input.rows,
    cost_ns=lambda wait: wait.waited_ns * wait.steps, view="idle", filter="cause=input",
    change=lambda _: "idle:input=0",
)
