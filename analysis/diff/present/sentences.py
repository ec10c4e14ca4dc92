"""The verdict in words: Cycle, GPU and Data (``causes`` has the others), each a line that says what it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from ...core import units
from ..prepare.collectives import CollectiveTiming
from ..prepare.collectives import sentence as collective_sentence
from ..prepare.samples import Matched
from ..verdict.comparability import Comparability
from ..verdict.cycle_time import CycleTime, SlowCycle
from ..verdict.device_work import CHANGED, DeviceWork

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def some(count: int) -> str:
    """A small number in words, a large one in figures."""
    return _WORDS[count] if count < len(_WORDS) else f"{count:,}"


def line(label: str, text: str) -> str:
    """A labelled line of the verdict."""
    return f"{label:<8}{text}"


def cycle_line(cycles: CycleTime) -> str:
    """The pair's headline as the line of the diff."""
    return line("Cycle", cycle_sentence(cycles))


def cycle_sentence(cycles: CycleTime) -> str:
    """The one headline of two runs, in the same words in every view.

    Whether the cycle got slower, by how much, and which cycles stand out with what is special in them.
    """
    a, b = cycles.median_a_ms, cycles.median_b_ms
    if cycles.verdict == "not comparable":
        of = f" {cycles.unit}" if cycles.unit else ""
        return f"not comparable (median {units.amount(a)} in A, {units.amount(b)} in B{of}): they do different work"
    figures = [f"median {units.amount(a, b)}{f' {cycles.unit}' if cycles.unit else ''}"]
    if cycles.verdict in ("slower", "faster") and a and (b / a >= 1.5 or b / a <= 1 / 1.5):
        figures.append(f"{b / a:.1f}×")
    if cycles.ci_low_ms is not None and cycles.ci_high_ms is not None:
        figures.append(f"95% CI {units.rough_figure(cycles.ci_low_ms)}…{units.rough_figure(cycles.ci_high_ms)}")
    text = f"{cycles.verdict} ({', '.join(figures)})"
    for count, run in ((cycles.cycles_a, "A"), (cycles.cycles_b, "B")):
        if count < 5:
            text += f"; only {some(count)} cycle{'' if count == 1 else 's'} in {run}"
    if cycles.undecided_by:
        reason = special(cycles.undecided_by)
        return f"{text}, because of {slow_ones(cycles.undecided_by)}{f': {reason}' if reason else ''}"
    slow = cycles.slow_in_b
    if slow and cycles.verdict != "slower":
        reason = special(slow)
        text += f". B has {units.counted(len(slow), 'outlier', 'outliers')}, {_times(slow)}"
        text += f": {reason}" if reason else ""
    return text


def slow_ones(slow: Sequence[SlowCycle]) -> str:
    """'2 slow cycles of B, #5 182 ms and #9 164 ms'."""
    runs = [run for run in ("A", "B") if any(one.run == run for one in slow)]
    of_run = f" of {runs[0]}" if len(runs) == 1 else ""
    return f"{units.counted(len(slow), 'slow cycle', 'slow cycles')}{of_run}, {_times(slow, len(runs) > 1)}"


def _times(slow: Sequence[SlowCycle], with_run: bool = False) -> str:
    """The first three slow cycles with their times."""
    named = []
    for one in slow[:3]:
        number = "" if one.cycle is None else f"#{one.cycle} "
        named.append(f"{f'{one.run} ' if with_run else ''}{number}{units.amount(one.ms)}")
    if len(slow) > 3:
        return f"{', '.join(named)} and {len(slow) - 3} more"
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)


def special(slow: Sequence[SlowCycle]) -> str:
    """What the slow cycles have more of: what most of them share. Empty where only their times are known."""
    if not any(one.reasons for one in slow):
        return ""
    host, device = (sum(reason in one.reasons for one in slow) for reason in ("host", "device"))
    if host * 2 > len(slow):
        return "extra host and GPU time" if device * 2 > len(slow) else "extra host time"
    return "extra GPU time" if device * 2 > len(slow) else "extra waiting, neither host nor GPU time"


def device_lines(
    work: Sequence[DeviceWork], timings: list[CollectiveTiming], names: dict[str, str], cycle_ms: float
) -> list[str]:
    """What the devices did: the one whose work changed most, and how many others."""
    made = []
    changed_most = sorted(work, key=lambda row: -abs(row.delta_ms))
    devices = len({row.device for row in work})
    for row in changed_most[:2]:
        prefix = f"{row.device} " if devices > 1 else ""
        if devices < len(work) and row.rank is not None:  # hosts name their devices alike
            prefix = f"rank {row.rank} ({row.device}) "
        made.append(line(_label(row.device), prefix + _device_text(row)))
    if len(changed_most) > 2:
        made[-1] += f"; {len(changed_most) - 2} more process pairs or devices in the facts"
    ranks = collective_sentence(timings, names, cycle_ms)
    if ranks:
        made.append(line("Ranks", ranks))
    return made


def _label(device: str | None) -> str:
    return (device or "Device").split()[0]


def _device_text(row: DeviceWork) -> str:
    ratio, per_launch = row.ratio, row.per_launch_ratio
    text = "work per cycle"
    if row.communication_a_ms or row.communication_b_ms:
        text += ", without collectives"  # which wait for other ranks, and have a line of their own
    text += f": {units.amount(row.busy_a_ms, row.busy_b_ms)}"
    if ratio is None:
        return f"{text} ({'new' if row.busy_b_ms else 'none'})"
    if abs(ratio - 1) > CHANGED:
        times = f"{ratio:.1f}×" if ratio >= 1.5 or ratio <= 0.67 else f"{100 * (ratio - 1):+.0f}%".replace("-", "−")
        same = per_launch is not None and abs(per_launch - 1) <= CHANGED
        text += f" ({times}{', per launch unchanged' if same else ''})"
    else:
        text += " (unchanged)"
    text += f". {idle}" if (idle := _idle_text(row)) else ""
    if row.path == "hidden":
        text += ": the host sets the pace" if idle else ". The host sets the pace"
    elif row.path == "exposed":
        text += ": the cycle waits for the GPU" if idle else ". The cycle waits for the GPU"
    return text


def _idle_text(row: DeviceWork) -> str:
    """The idle share; "still" where it is the same, or where a device that worked more is idle most of the time."""
    a, b = row.idle_a, row.idle_b
    if a is None or b is None:
        return ""
    waits = " or waiting for other ranks" if row.others_waited_for else ""
    if round(100 * a) == round(100 * b) or (row.path == "hidden" and 0.5 <= b < a):
        return f"Still {b:.0%} idle{waits}"
    return f"Idle{waits} {a:.0%} → {b:.0%}"


def data_line(comparability: Comparability, matched: list[Matched], row_noise_ms: float | None) -> str:
    """What the verdict rests on: comparable or not, what was left out, the noise floor of a row."""
    parts = [] if not comparability.comparable else ["comparable"]
    if comparability.reasons:
        parts = [("comparable with reserve: " if comparability.comparable else "NOT comparable: ")
                 + "; ".join(comparability.reasons)]
    total, lacking, warm_up = left_out(matched)
    if lacking:
        parts.append(f"{lacking} of {total} cycles lack GPU records and are left out of GPU rows")
    if warm_up:
        parts.append(f"{warm_up} warm-up cycle{'' if warm_up == 1 else 's'} left out")
    if row_noise_ms is not None:
        parts.append(f"noise floor ±{units.amount(row_noise_ms)}")
    return line("Data", "; ".join(parts))


def left_out(matched: list[Matched]) -> tuple[int, int, int]:
    """Cycles in all, those without whole device records and those of warm-up, over both runs and all processes."""
    seen: dict[tuple[str, int | None], tuple[int, int, int]] = {}
    for one in matched:
        for run, pid, kept in (("a", one.pair.a, one.coverage_a), ("b", one.pair.b, one.coverage_b)):
            seen[run, pid] = (kept.cycles, kept.not_whole, kept.warm_up)
    columns = list(zip(*seen.values(), strict=True)) or [(0,), (0,), (0,)]
    return sum(columns[0]), sum(columns[1]), sum(columns[2])
