"""The verdict in words: Cycle, GPU, Changed and Data, each a line that says what it rests on."""

from __future__ import annotations

from typing import Any

from ...core.metrics import change
from ..prepare.collectives import sentence as collective_sentence
from ..prepare.samples import Matched
from ..verdict.device_work import CHANGED

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def some(count: int) -> str:
    """A small number in words, a large one in figures."""
    return _WORDS[count] if count < len(_WORDS) else f"{count:,}"


def ms(value: float, signed: bool = False) -> str:
    """Milliseconds without their unit: 751, 45.1, 2.6, 0.021."""
    size = abs(value)
    places = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    text = f"{value:{'+' if signed else ''},.{places}f}"
    return text.replace("-", "−")


def _rough(value: float) -> str:
    """A bound of an interval: two figures, signed."""
    places = 0 if abs(value) >= 10 else 1 if abs(value) >= 1 else 2 if abs(value) >= 0.1 else 3
    return f"{value:+,.{places}f}".replace("-", "−")


def line(label: str, text: str) -> str:
    """A labelled line of the verdict."""
    return f"{label:<8}{text}"


def cycle_line(cycles: dict[str, Any]) -> str:
    """Whether the cycle got slower, by how much, and which cycles stand out with what is special in them."""
    a, b = cycles["median_a_ms"], cycles["median_b_ms"]
    text = f"{cycles['verdict']}: {ms(a)} → {ms(b)} ms"
    if cycles["verdict"] in ("slower", "faster") and a and (b / a >= 1.5 or b / a <= 1 / 1.5):
        text += f" ({b / a:.1f}×)"
    if cycles["ci_low_ms"] is not None:
        text += f", {_rough(cycles['shift_ms'])} [{_rough(cycles['ci_low_ms'])}, {_rough(cycles['ci_high_ms'])}]"
    for side, run in (("cycles_a", "A"), ("cycles_b", "B")):
        if cycles[side] < 5:
            text += f"; only {some(cycles[side])} cycle{'' if cycles[side] == 1 else 's'} in {run}"
    slow = [one for one in cycles["outliers"] if one["run"] == "B"]
    if slow and cycles["verdict"] != "slower":
        named = " and ".join(f"B{one['cycle']} {ms(one['ms'])}" for one in slow[:3])
        count = f"{some(len(slow))} slow one{'' if len(slow) == 1 else 's'}"
        text += f"; {count}, {named} ms{' and more' if len(slow) > 3 else ''}, {special(slow)}"
    return line("Cycle", text)


def special(slow: list[dict[str, Any]]) -> str:
    """What the slow cycles have more of: what most of them share."""
    kinds = {name: sum(name in one["special"] for one in slow) for name in ("host", "device", "idle")}
    device_known = any(one["more_device_ms"] is not None for one in slow)
    if kinds["host"] * 2 > len(slow):
        if kinds["device"] * 2 > len(slow):
            return "with more host time and more GPU time"
        return "with more host time" + (", not more GPU time" if device_known else "")
    if kinds["device"] * 2 > len(slow):
        return "with more GPU time"
    return "with neither more host time nor more GPU time: they waited"


def device_lines(
    work: list[dict[str, Any]], collectives: list[dict[str, Any]], names: dict[str, str], cycle_ms: float
) -> list[str]:
    """What the devices did: the one whose work changed most, and how many others."""
    made = []
    ranked = sorted(work, key=lambda row: -abs(row["delta_ms"]))
    several = len({row["device"] for row in work}) > 1
    for row in ranked[:2]:
        prefix = f"{row['device']} " if several else ""
        made.append(line(_label(row["device"]), prefix + _device_text(row)))
    if len(ranked) > 2:
        made[-1] += f"; {len(ranked) - 2} more process pairs or devices in the facts"
    told = collective_sentence(collectives, names, cycle_ms)
    if told:
        made.append(line("Ranks", told))
    return made


def _label(device: str | None) -> str:
    return (device or "Device").split()[0]


def _device_text(row: dict[str, Any]) -> str:
    ratio, per_launch = row["ratio"], row["per_launch_ratio"]
    text = f"busy {ms(row['busy_a_ms'])} → {ms(row['busy_b_ms'])} ms per cycle"
    if row["communication_a_ms"] or row["communication_b_ms"]:
        text += " beside collectives"  # which wait for other ranks, and have a line of their own
    if ratio is None:
        return f"{text}: {'new' if row['busy_b_ms'] else 'no'} work"
    if abs(ratio - 1) > CHANGED:
        times = f"{ratio:.1f}×" if ratio >= 1.5 or ratio <= 0.67 else f"{100 * (ratio - 1):+.0f}%".replace("-", "−")
        text += f" ({times})"
        if per_launch is not None and abs(per_launch - 1) <= CHANGED:
            text += ", per launch unchanged"
    else:
        text += ", unchanged" + (" per launch too" if per_launch and abs(per_launch - 1) <= CHANGED else "")
    idle_a, idle_b = row["idle_a"], row["idle_b"]
    if idle_a is not None and idle_b is not None:
        waits = " or waiting for other ranks" if row["waits"] else ""
        if round(100 * idle_a) == round(100 * idle_b) or row["path"] == "hidden":
            text += f", still {idle_b:.0%} idle{waits}"
        else:
            text += f", idle{waits} {idle_a:.0%} → {idle_b:.0%}"
    if row["path"] == "hidden":
        text += ": hidden behind the host"
    elif row["path"] == "exposed":
        text += ": the cycle waits for it"
    return text


def resource_text(row: dict[str, Any]) -> str:
    """A changed resource: name, values in natural units, where, and which functions ran under it."""
    text = f"{row['metric']} {change(row['mu_a'], row['mu_b'], row['unit'])} on {row['device']}"
    slower, under = row["functions"], row["seen_by"]
    if not slower:
        return text
    if slower == under:
        who = "the one function" if under == 1 else "both functions" if under == 2 else f"all {under} functions"
        return f"{text}, under {who} it was read with, slower now"
    return f"{text}, under {slower} slower functions of the {under} it was read with"


def changed_line(resources: list[dict[str, Any]], explains: str) -> str:
    """The resource most likely to come from outside, and what it explains."""
    outside = [row for row in resources if row["role"] == "capacity" and row["loss"] > 0]
    if not outside:
        if not resources:
            return line("Changed", f"no resource that was read; {explains}")
        return line("Changed", f"no capacity; {resource_text(resources[0])}, which follows from the work; {explains}")
    return line("Changed", f"{resource_text(outside[0])}: {explains}")


def data_line(comparability: dict[str, Any], matched: list[Matched], calibration: dict[str, Any]) -> str:
    """What the verdict rests on: comparable or not, what was left out, how much a row moves by chance."""
    parts = [] if not comparability["comparable"] else ["comparable"]
    if comparability["reasons"]:
        parts = [("comparable with reserve: " if comparability["comparable"] else "NOT comparable: ")
                 + "; ".join(comparability["reasons"])]
    total, lacking, warm_up = left_out(matched)
    if lacking:
        parts.append(f"{lacking} of {total} cycles lack GPU records and are left out of GPU rows")
    if warm_up:
        parts.append(f"{warm_up} warm-up cycle{'' if warm_up == 1 else 's'} left out")
    if calibration.get("row_ms") is not None:
        parts.append(f"by chance a row moves up to ±{ms(calibration['row_ms'])} ms")
    return line("Data", "; ".join(parts))


def left_out(matched: list[Matched]) -> tuple[int, int, int]:
    """Cycles in all, those without whole device records and those of warm-up, over both runs and all processes."""
    seen: dict[tuple[str, int | None], tuple[int, int, int]] = {}
    for one in matched:
        for run, pid, kept in (("a", one.pair.a, one.coverage_a), ("b", one.pair.b, one.coverage_b)):
            seen[run, pid] = (kept.cycles, kept.not_whole, kept.warm_up)
    columns = list(zip(*seen.values(), strict=True)) or [(0,), (0,), (0,)]
    return sum(columns[0]), sum(columns[1]), sum(columns[2])
