"""The verdict in words: the lines Cycle, GPU, Ranks, Idle, Cause and Data, and the explanation in a sentence or two."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import units
from ..core.metrics import change, title
from ..findings.spread import share_text
from .change import CycleChange
from .cycle_time import NO_SINGLE_REASON, CycleTime, Outlier
from .device_work import CHANGED, DeviceWork
from .function_change import FunctionChange, IdleChange
from .judge import Shape
from .prepare.collectives import CollectiveTiming
from .prepare.collectives import sentence as collective_sentence
from .prepare.samples import Matched
from .resources import ChangedResource
from .same_work import SameWork
from .verdict import Cause, Comparability, Reach, UniformChange

FEW = 5  # With fewer cycles than this a sentence says how many there are.
_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def some(count: int) -> str:
    """A small number in words, a large one in figures."""
    return _WORDS[count] if count < len(_WORDS) else f"{count:,}"


def line(label: str, text: str) -> str:
    """A labelled line of the verdict."""
    return f"{label:<8}{text}"


def cycle_line(cycles: CycleTime, same: SameWork) -> str:
    """The pair's headline as the line of the diff."""
    return line("Cycle", cycle_sentence(cycles, same))


def cycle_sentence(cycles: CycleTime, same: SameWork) -> str:
    """The one headline of two runs, in the same words in every view: the judge's word on the mean cycle with the
    figures it was judged by, the shape of the lengths, and the outliers."""
    a, b = cycles.compared_a_ms, cycles.compared_b_ms
    of = f" {cycles.unit}" if cycles.unit else ""
    if cycles.verdict == "not judged":
        why = same.sentence.removeprefix("not judged: ")
        return f"not judged (mean {units.amount(a)} in A, {units.amount(b)} in B{of}): {why}"
    figures = [f"mean {units.amount(a, b)}{of}"]
    if cycles.called:
        big = cycles.ratio >= 1.5 or cycles.ratio <= 1 / 1.5
        figures.append(units.factor(cycles.ratio) if big else units.percent(100 * (cycles.ratio - 1), signed=True))
    if cycles.mean_low_ms is not None and cycles.mean_high_ms is not None:
        low, high = units.rough_figure(cycles.mean_low_ms), units.rough_figure(cycles.mean_high_ms)
        figures.append(f"95% CI {low} to {high} {units.sentence_unit()}")
    medians = units.amount(cycles.median_a_ms, cycles.median_b_ms)
    if medians != units.amount(a, b):
        figures.append(f"median {medians}")
    if left := without(cycles):
        figures.append(left)
    text = f"{cycles.verdict} ({', '.join(figures)})"
    few = {run: count for run, count in (("A", cycles.cycles_a), ("B", cycles.cycles_b)) if count < FEW}
    if cycles.cycles_a == cycles.cycles_b and few:
        few = {"each run": cycles.cycles_a}
    for run, count in few.items():
        text += f"; only {some(count)} cycle{'' if count == 1 else 's'} in {run}"
    for run, shape in (("B", cycles.shape_b), ("A", cycles.shape_a)):
        if said := shape_text(shape):
            text += f". {run}: {said}"
    slow = cycles.slow_in_b
    if slow:
        reason = special(slow)
        text += f". B has {units.counted(len(slow), 'outlier', 'outliers')}, {slow_ones(slow)}"
        text += f": {reason}" if reason else ""
    return text


def without(cycles: CycleTime) -> str:
    """What is not compared: 'without the first cycle and outliers'; empty where all cycles are."""
    left = (*cycles.left_out_a, *cycles.left_out_b)
    first = max(sum(one.reason == "first" for one in side) for side in (cycles.left_out_a, cycles.left_out_b))
    parts = ["the first cycle" if first == 1 else f"the first {some(first)} cycles"] if first else []
    parts += ["outliers"] if any(one.reason == "outlier" for one in left) else []
    return f"without {' and '.join(parts)}" if parts else ""


def shape_text(shape: Shape) -> str:
    """'13 of 44 cycles take 53.0 ms, the others 40.8'; empty for one level, and for outliers, which are listed."""
    if shape.high_ms is None or shape.low_ms is None or shape.kind in ("one level", "outliers"):
        return ""
    high, low = units.amount(shape.high_ms), units.amount(shape.low_ms)
    if shape.kind == "first":
        return f"the first {some(shape.count) if shape.count > 1 else 'cycle'} {high}, the others {low}, left out"
    if shape.kind == "every":
        return f"every {shape.period}th cycle {high if shape.count * 2 <= shape.of else low}, the others " + (
            low if shape.count * 2 <= shape.of else high)
    if shape.kind == "since":
        since = shape.since or 0
        risen = 2 * sum(number >= since for number in shape.cycles) > len(shape.cycles)
        before, after = (low, high) if risen else (high, low)
        return f"{before} before cycle #{shape.since}, {after} since"
    return f"{shape.count} of {shape.of} cycles take {high}, the others {low}"


def slow_ones(slow: Sequence[Outlier]) -> str:
    """'#5 182 ms and #9 164 ms': the first three outliers, and the number of others."""
    named = [f"#{one.cycle} {units.amount(one.ms)}" for one in slow[:3]]
    if len(slow) > 3:
        return f"{', '.join(named)} and {len(slow) - 3} more"
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)


_REASONS = {"device": "GPU time", "host": "host time"}


def special(slow: Sequence[Outlier]) -> str:
    """What most of the slow cycles have more of; empty if only their times are known, or they differ."""
    shared = [reason for reason in dict.fromkeys(reason for one in slow for reason in one.reasons)
              if 2 * sum(reason in one.reasons for one in slow) > len(slow)]
    if not shared:
        return ""
    if shared == [NO_SINGLE_REASON]:
        return NO_SINGLE_REASON
    named = [_REASONS.get(one, f"time idle on {one}") for one in shared if one != NO_SINGLE_REASON]
    return f"extra {' and '.join(named)}" if named else ""


NAMED = 3  # Most causes named in the line on the change.


def change_line(change: CycleChange | None, cycles: CycleTime, names: dict[str, str]) -> list[str]:
    """The line on where the change of the cycle went, where that is called; none without an account."""
    if change is None or not cycles.called or not change.causes:
        return []
    sign = 1.0 if change.delta_ms >= 0 else -1.0
    grown = [one for one in change.causes if sign * one.delta_ms > 0.02 * abs(change.delta_ms)]
    named = [f"{cause_name(one.kind, names.get(one.name, one.name))} {units.amount(one.delta_ms, signed=True)}"
             for one in grown[:NAMED]]
    rest = change.delta_ms - sum(one.delta_ms for one in grown[:NAMED])
    more = f", all else {units.amount(rest, signed=True)}" if abs(rest) > 0.02 * abs(change.delta_ms) else ""
    return [line("Change", f"{units.amount(change.delta_ms, signed=True)} a cycle: {', '.join(named)}{more}.")]


def cause_name(kind: str, name: str) -> str:
    """A cause of the change in words: 'idle on DataLoader (input)' or the function's name."""
    return f"idle on {name}" if kind == "idle" else name


def uniform_line(uniform: UniformChange | None) -> list[str]:
    """The lead that all kernels changed by one factor."""
    if uniform is None:
        return []
    went = "slower" if uniform.factor > 1 else "faster"
    factor, spread = units.factor(uniform.factor), units.percent(100 * uniform.spread)
    return [line("Lead", f"{uniform.kernels} of {uniform.of} kernels {factor}, all {went}, spread {spread}: a clock or "
                         "power limit would do this. No counter was recorded that shows it.")]


def unjudged(same: SameWork) -> str:
    """Why neither run is called faster or slower."""
    text = same.sentence
    return f"{text[:1].upper()}{text[1:]}."


def device_lines(
    work: Sequence[DeviceWork], timings: list[CollectiveTiming], names: dict[str, str], cycle_ms: float
) -> list[str]:
    """A line for each of the two devices whose work changed most, the number of others, and the line on ranks."""
    result = []
    changed_most = sorted(work, key=lambda row: (row.only_in is not None, -abs(row.delta_ms)))
    devices = len({row.device for row in work})
    for row in changed_most[:2]:
        prefix = f"{row.device} " if devices > 1 else ""
        if devices < len(work) and row.rank is not None:  # device names repeat from host to host
            prefix = f"rank {row.rank} ({row.device}) "
        result.append(line((row.device or "Device").split()[0], prefix + _device_text(row)))
    if len(changed_most) > 2:
        result[-1] += f"; {len(changed_most) - 2} more process pairs or devices in the facts"
    ranks = collective_sentence(timings, names, cycle_ms)
    if ranks:
        result.append(line("Ranks", ranks))
    return result


def _device_text(row: DeviceWork) -> str:
    ratio, per_launch = row.ratio, row.per_launch_ratio
    text = "work a cycle"
    if row.communication_a_ms or row.communication_b_ms:
        text += ", without collectives"  # collectives wait for other ranks and have their own line
    if row.only_in is not None:
        return f"ran only in {row.only_in}: {units.amount(max(row.busy_a_ms, row.busy_b_ms))} of {text}"
    text += f": {units.amount(row.busy_a_ms, row.busy_b_ms)}"
    if ratio is None:
        return f"{text} ({'new' if row.busy_b_ms else 'none'})"
    if abs(ratio - 1) > CHANGED:
        share = units.percent(100 * (ratio - 1), signed=True, places=0)
        times = units.factor(ratio) if ratio >= 1.5 or ratio <= 0.67 else share
        same = per_launch is not None and abs(per_launch - 1) <= CHANGED
        text += f" ({times}{', per launch unchanged' if same else ''})"
    else:  # the judge decides the word, here as everywhere
        text += f" ({'unchanged' if row.verdict == 'unchanged' else units.percent(100 * (ratio - 1), signed=True)})"
    text += f". {idle}" if (idle := _idle_text(row)) else ""
    if row.path == "hidden":
        text += ": the host sets the pace" if idle else ". The host sets the pace"
    elif row.path == "exposed":
        text += ": the cycle waits for the GPU" if idle else ". The cycle waits for the GPU"
    return text


def _idle_text(row: DeviceWork) -> str:
    """The idle share; "still" if it is the same, or if a device that worked more is idle most of the time."""
    a, b = row.idle_a, row.idle_b
    if a is None or b is None:
        return ""
    waits = " or waiting for other ranks" if row.others_waited_for else ""
    before, after = share_text(a), share_text(b)
    if before == after or (row.path == "hidden" and 0.5 <= b < a):
        return f"Still {after} of the cycle idle{waits}"
    return f"Idle{waits} {before} → {after} of the cycle"


def total_line(rows: Sequence[FunctionChange], same: SameWork, by_step: bool = False) -> str:
    """One line with the device time of both runs, ``by_step`` of what was launched in one, and what ``same`` says of
    the work they do."""
    own = [row for row in rows if row.kind != "collective"]  # most of their time is waiting for other ranks
    a, b = sum(row.a_ms or 0.0 for row in own), sum(row.b_ms or 0.0 for row in own)
    if not_timed := [
        run for run, side in (("A", "a_ms"), ("B", "b_ms")) if all(getattr(row, side) is None for row in rows)
    ]:
        return line("GPU", f"durations are not recorded in {' and '.join(not_timed)}")
    text = f"{units.amount(a, b)} of device time{' launched per step' if by_step else ''}"
    text += ", without collectives" if len(own) < len(rows) else ""
    text += {"yes": " for the same work", "no": ", different work"}.get(same.answer, "")
    if a and same.proved:
        text += f" ({units.percent(100 * (b / a - 1), signed=True)})"
    return line("GPU", text)


def data_line(same: SameWork, comparable: Comparability, matched: list[Matched], row_noise_ms: float | None) -> str:
    """The data behind the verdict: by what evidence the work is the same, cycles left out, the noise floor of a row."""
    parts = [same.sentence, *comparable.reasons]
    total, lacking = left_out(matched)
    if lacking:
        parts.append(f"{lacking} of {total} cycles lack GPU records and are left out of GPU rows")
    if row_noise_ms is not None:
        parts.append(f"noise floor of a row at most ±{units.amount(row_noise_ms)}")
    return line("Data", "; ".join(parts))


def left_out(matched: list[Matched]) -> tuple[int, int]:
    """Numbers of all cycles and of cycles without all device records, over both runs and all processes. Processes that
    share the same cycles, as those of one launch pattern do, count them once, as in every view."""
    seen: dict[tuple[str, bytes, bytes], tuple[int, int]] = {}
    for one in matched:
        for run, side, lengths in (("a", one.a, one.coverage_a), ("b", one.b, one.coverage_b)):
            shared = run, side.cycles.tobytes(), side.cycle_ms.tobytes()
            seen[shared] = (lengths.cycles, lengths.not_whole)
    columns = list(zip(*seen.values(), strict=True)) or [(0,), (0,)]
    return sum(columns[0]), sum(columns[1])


_REACHES: dict[Reach, str] = {
    "slower cycle": "It explains the slower cycle.",
    "slower cycle, not the work": "It explains the slower cycle; GPU work per launch is unchanged.",
    "host, nothing slower": "Nothing on the host got slower under it: it does not explain the slower cycle.",
    "maybe outliers": "It may explain the {outliers}.",
    "no slower cycle": "It explains no slower cycle: {length}.",
    "nothing slower": "No kernel got slower under it: it explains nothing.",
    "hidden work": "It explains the longer GPU work. That work is overlapped: the cycle is slower for another reason.",
    "work, cycle unknown": "It explains the GPU work; whether the cycle waits for that work is not recorded.",
    "work, not outliers": "It explains the GPU work, not the {outliers}.",
    "work": "It explains the GPU work; {length}.",
    "maybe faster cycle": "It may explain the faster cycle.",
}


def cause_lines(
    cause: Cause, resources: Sequence[ChangedResource], cycles: CycleTime | None, same: SameWork
) -> list[str]:
    """The lines on the idle time that explains the cycle's change, and on the resource most likely behind it."""
    result = []
    if cause.idle is not None and same.proved:
        result.append(line("Idle", f"{_idle(cause.idle, cycles)}."))
    if cause.resource is not None:
        text = f"{resource_sentence(cause.resource)}."
        with_reach = f"{text} {_reach(cause, cycles)}{_alone(cause)}" if same.proved else text
        result.append(line("Cause", with_reach))
    elif resources:
        result.append(line("Cause", f"no clock, power, link or processor reading changed; {_changed(resources[0])} "
                                  "follows from the work."))
    return result


def _alone(cause: Cause) -> str:
    """The predicted cycle time with only the resource changed."""
    if cause.alone is None or cause.resource is None:
        return ""
    before, after = cause.alone.cycle_ns, cause.alone.predicted_ns
    what = f"With only the {title(cause.resource.metric)} changed, the cycle would"
    if abs(after / max(before, 1) - 1) < CHANGED / 4:
        return f" {what} still take {units.duration(after)}."
    return f" {what} take {units.duration(after)} instead of {units.duration(before)}."


def explanation(cause: Cause, cycles: CycleTime | None, slower: int, same: SameWork, readings: bool) -> str:
    """The verdict in a sentence or two, for who reads nothing else; ``slower``: the number of slower functions,
    ``readings``: whether both runs have counters."""
    if not same.proved:
        text = unjudged(same)
        return f"{text} {_changed(cause.resource)}, which may be a cause." if cause.resource is not None else text
    cycle = {
        "slower": "The cycle got slower", "faster": "The cycle got faster", "unchanged": "The cycle kept its length",
    }.get(cycles.verdict if cycles is not None else "", "It is unclear whether the cycle changed")
    count = "no function significantly slower" if not slower else (
        f"{units.counted(slower, 'function', 'functions')} significantly slower"
    )
    sentences = [f"{cycle}, {count}."]
    if cause.idle is not None:
        sentences.append(f"{_idle(cause.idle, cycles)}.")
    if cause.resource is not None:
        sentences.append(f"{resource_sentence(cause.resource)}. {_reach(cause, cycles)}")
    elif cause.idle is None:
        sentences.append(_without_a_resource(cause, readings))
    return " ".join(sentences)


def _without_a_resource(cause: Cause, readings: bool) -> str:
    match cause.where:
        case "gpu work":
            return "The cycle waits for more GPU work."
        case "host":
            return "GPU work is unchanged and the GPU waits longer: the time is lost on the host."
        case "nothing needed":
            return "Nothing to explain."
    return f"No likely cause: no clock, power or link reading {'changed' if readings else 'was recorded in both runs'}."


def _idle(one: IdleChange, cycles: CycleTime | None) -> str:
    """'GPU 0 idles less on DataLoader (input): 57.8 → 0.37 ms a cycle, all of the cycle's −49.1 ms'."""
    where = f"Rank {one.rank}" if one.rank is not None else one.device or "The device"
    text = (f"{where} idles {'more' if one.delta_ms > 0 else 'less'} on {one.label}: "
            f"{units.amount(one.a_ms, one.b_ms)} a cycle")
    if cycles is None or one.share is None or not cycles.called:
        return text
    moved = units.amount(cycles.mean_delta_ms, signed=True)
    return f"{text}, {'all' if one.share >= 0.9 else units.percent(100 * one.share, places=0)} of the cycle's {moved}"


def resource_sentence(row: ChangedResource) -> str:
    """A changed resource: metric, device, values in natural units, and how many functions under it got slower."""
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
    lengths = {"unchanged": "the cycle kept its length", "faster": "the cycle got no slower"}
    outliers = len(cycles.slow_in_b) if cycles is not None else 0
    return _REACHES[cause.reach].format(
        length=lengths.get(verdict, "whether the cycle changed is unclear"),
        outliers="outlier" if outliers == 1 else units.counted(outliers, "outlier", "outliers"),
    )
