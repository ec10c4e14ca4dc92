"""The host waits for input data."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ...core.text import display
from ..evidence.waits import Waits
from ..rule import BLAME, WAITING, Evidence, PartOfStep, Rule, Unchecked


class InputWait(Struct, frozen=True):
    """Time in which nothing ran but the DataLoader, ns of a step; ``waits`` where the idle account says so too.

    ``bound`` is whether that is what most of the idle time goes to.
    """

    waited_ns: float
    part: PartOfStep
    steps: int
    bound: bool
    waits: Waits | None = None


def _find(evidence: Evidence) -> InputWait | Unchecked | None:
    waits = evidence.measured.waits
    if waits is not None and evidence.doubt is not None:
        return Unchecked(evidence.doubt)
    if waits is not None and waits.share(waits.causes.get("input", 0)) > WAITING:
        loaded = waits.causes["input"]
        return InputWait(loaded, evidence.part, 1, loaded > BLAME * waits.idle_ns, waits)
    # before its first activity and after its last one a device has no gaps
    waited = evidence.times.get("DataLoader", 0.0)
    if not evidence.step_ns or waited <= WAITING * evidence.step_ns:
        return None
    return InputWait(waited, evidence.part, max(evidence.steps_each, 1), waited > BLAME * evidence.idle_ns)


def _sentence(found: InputWait) -> str:
    what = "Bound by input data" if found.bound else "Input data comes late"
    if found.waits is None:
        return f"{what}: the host waits for the DataLoader {found.part.of(found.waited_ns)}."
    waits = found.waits
    share = units.percent(100 * found.waited_ns / waits.idle_ns, places=0)
    device = display(waits.device or "the device", 24)
    return (f"{what}: input, {share} of idle, DataLoader: {device} waits "
            f"{units.duration(found.waited_ns)} of {units.duration(waits.window_ns)}{waits.where} for it.")


RULE = Rule(
    "input", "problem", _find, _sentence,
    rows=lambda found: () if found.waits is None else found.waits.input.rows,
    time_to_win_ns=lambda found: found.waited_ns * found.steps, view="idle", filter="cause=input",
)
