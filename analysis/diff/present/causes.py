"""Why two runs differ, in words: the lines Idle and Cause of the verdict, and the explanation in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from ...core import units
from ...core.metrics import change, title
from ..verdict.comparability import Comparability
from ..verdict.cycle_time import CycleTime
from ..verdict.explanation import Cause, Reach
from ..verdict.idle_changes import IdleChange
from ..verdict.per_launch import LaunchChange
from ..verdict.resources import ChangedResource
from .sentences import line, slow_ones

_REACHES: dict[Reach, str] = {
    "slower cycle": "It explains the slower cycle.",
    "slower cycle, not the work": "It explains the slower cycle; GPU work per launch is unchanged.",
    "host, nothing slower": "Nothing on the host got slower under it: it does not explain the slower cycle.",
    "maybe outliers": "It may explain the {outliers}.",
    "no slower cycle": "It explains no slower cycle: {length}.",
    "nothing slower": "No kernel got slower under it: it explains nothing.",
    "hidden work": "It explains the GPU work, which is hidden behind the host, not the slower cycle.",
    "work, cycle unknown": "It explains the GPU work; whether the cycle waits for that work is not recorded.",
    "work, not outliers": "It explains the GPU work, not the {outliers}.",
    "work": "It explains the GPU work; {length}.",
    "maybe faster cycle": "It may explain the faster cycle.",
}


def cause_lines(
    cause: Cause, resources: Sequence[ChangedResource], cycles: CycleTime | None, comparability: Comparability
) -> list[str]:
    """What the cycle gained or lost in idle time, and the resource most likely to be why."""
    made = []
    if cause.idle is not None and comparability.comparable:
        made.append(line("Idle", f"{_idle(cause.idle, cycles)}."))
    if cause.resource is not None:
        text = f"{resource_sentence(cause.resource)}."
        made.append(line("Cause", f"{text} {_reach(cause, cycles)}" if comparability.comparable else text))
    elif resources:
        made.append(line("Cause", f"no clock, power, link or processor reading changed; {_changed(resources[0])} "
                                  "follows from the work."))
    return made


def explanation(
    cause: Cause, cycles: CycleTime | None, regressions: int, comparability: Comparability, readings: bool,
    changes: Sequence[LaunchChange] = (),
) -> str:
    """The whole in a sentence or two, for those who read only one; ``readings`` says that the machine was read.

    ``changes`` are what is left to say where the runs do different work.
    """
    if not comparability.comparable:
        return not_comparable(comparability, changes, cause.resource)
    cycle = {
        "slower": "The cycle got slower", "faster": "The cycle got faster", "unchanged": "The cycle kept its length",
    }.get(cycles.verdict if cycles is not None else "", "It is unclear whether the cycle changed")
    if cycles is not None and cycles.undecided_by:
        cycle += f" because of {slow_ones(cycles.undecided_by)}"
    count = "no function significantly slower" if not regressions else (
        f"{units.counted(regressions, 'function', 'functions')} significantly slower"
    )
    said = [f"{cycle}, {count}."]
    if cause.idle is not None:
        said.append(f"{_idle(cause.idle, cycles)}.")
    if cause.resource is not None:
        said.append(f"{resource_sentence(cause.resource)}. {_reach(cause, cycles)}")
    elif cause.idle is None:
        said.append(_without_a_resource(cause, readings))
    return " ".join(said)


def not_comparable(
    comparability: Comparability, changes: Sequence[LaunchChange], resource: ChangedResource | None = None
) -> str:
    """Why neither run is faster or slower, what one launch takes now, and what else changed."""
    said = [f"These runs cannot be compared as one thing changed: {comparability.why}."]
    if changes:
        said.append(f"{launches_text(changes)}.")
    if resource is not None:
        said.append(f"{_changed(resource)}, which may be a cause.")
    return " ".join(said)


def launches_text(changes: Sequence[LaunchChange]) -> str:
    """'A launch of the 40 kernels in both runs takes 3.5× as long (median by time)'."""
    what = {"device": "kernels", "host": "host functions"}
    parts = [
        f"{'a launch' if one.category == 'device' else 'a call'} of the {one.functions:,} {what[one.category]} in both "
        f"runs takes {units.factor(one.ratio)} as long" for one in changes
    ]
    text = f"{', '.join(parts)} (median by time)"
    return text[0].upper() + text[1:]


def _without_a_resource(cause: Cause, readings: bool) -> str:
    match cause.where:
        case "gpu work":
            return "The cycle waits for more GPU work."
        case "host":
            return "GPU work is unchanged and the GPU waits longer: the time is lost on the host."
        case "nothing needed":
            return "No cause needs to be found."
    return f"No likely cause: no capacity {'that was read changed' if readings else 'was read'}."


def _idle(one: IdleChange, cycles: CycleTime | None) -> str:
    """'GPU 0 idle on DataLoader (input) fell 57.8 → 0.37 ms per cycle: 117% of the cycle's change'."""
    where = f"Rank {one.rank}" if one.rank is not None else one.device or "The device"
    went = "rose" if one.delta_ms > 0 else "fell"
    text = f"{where}: idle on {one.label} {went} {units.amount(one.a_ms, one.b_ms)} per cycle"
    if cycles is None or one.share is None:
        return text
    shift = units.amount(cycles.shift_ms, signed=True)
    return f"{text}, {'all' if one.share >= 0.9 else units.percent(100 * one.share, places=0)} of the cycle's {shift}"


def resource_sentence(row: ChangedResource) -> str:
    """A changed resource: what it is, where, values in natural units, and which functions ran under it."""
    text = _changed(row)
    slower, under = row.functions, row.seen_by
    if not slower:
        return text
    if slower < under:
        return f"{text}; {slower} of the {under} functions that ran under it got slower"
    who = "the one function" if under == 1 else "both functions" if under == 2 else f"all {under} functions"
    return f"{text}; {who} that ran under it got slower"


def _changed(row: ChangedResource) -> str:
    """'SM clock of GPU 7 fell 1,187 → 210 MHz'."""
    went = "fell" if row.mu_b < row.mu_a else "rose"
    where = "the host" if row.device == "Host" else row.device
    return f"{title(row.metric)} of {where} {went} {change(row.mu_a, row.mu_b, row.unit)}"


def _reach(cause: Cause, cycles: CycleTime | None) -> str:
    if cause.reach is None:
        return ""
    verdict = cycles.verdict if cycles is not None else "cannot tell"
    kept = {"unchanged": "the cycle kept its length", "faster": "the cycle got no slower"}
    outliers = len(cycles.slow_in_b) if cycles is not None else 0
    return _REACHES[cause.reach].format(
        length=kept.get(verdict, "whether the cycle changed is unclear"),
        outliers=units.counted(outliers, "outlier", "outliers"),
    )
