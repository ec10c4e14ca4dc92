"""The picture of the overview: the answer with its number, a bar of where the time goes, gauges, and findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from textual.content import Content

from ...analysis.core import units
from ...analysis.core.text import display
from ...analysis.idle.cause_meanings import CAUSE_LETTERS, ROLES, idle_name
from ...analysis.kernels.family import LETTERS, TITLES
from ..list import cells
from ..list.frame import Frame, boxed, dim, with_base
from ..session.themes import content_style
from ..widgets.drawing import QUIET, A, B, fitting, gauge, joined, marked, side_by_side, stacked, with_number, wrapped

if TYPE_CHECKING:
    from ...analysis.table.table import Table

WIDE = 100
LOW = 18
"""In pictures up to this many lines, findings and bars get fewer lines."""
BUSY = 0.9
"""A device busy for this share of its steps has little idle time left to save."""
MOST_DEVICES = 2
LEAST_BAR = 4
"""Least cells to draw a bar in; for two runs ``█`` is the smaller share, ``░`` the difference to the larger."""
LEAST = 0.005
"""Idle causes under this share of the time are combined."""
_CATEGORIES = {
    "Kernel": "gemm", "Memcpy": "copy", "Memset": "copy", "Communication": "collective", "Runtime": "launch",
    "DataLoader": "python", "CPU Exec": "op", "Other": "device",
}
_GAUGES = (
    ("busy", "busy"), ("utilisation", "utilisation"), ("sm_efficiency", "SM in use"),
    ("occupancy", "occupancy"), ("tensor_share", "tensor time"),
)
_SEVERITIES = {"problem": "bad", "hint": "look", "fact": ""}
_DRAWN = frozenset(("busy", "costliest", "tensor cores", "utilisation"))
"""Rules whose findings repeat what the bars show."""


class Part(Struct, frozen=True):
    """A part of the time: name, letter ('' for none), style role and ns."""

    name: str
    letter: str
    role: str
    ns: float


def overview_picture(table: Table | None, failed: str, width: int, height: int, free: int = 0) -> Content:
    """The picture in ``width`` cells and at most ``height`` lines, the answer first. The parts of the time fill
    ``free`` lines, those the list below does not need."""
    if table is None:
        return joined(boxed(wrapped(failed, width - 4), Frame("Overview"), width))
    facts = table.facts
    pair = "a" in facts
    sides = [facts["a"], facts["b"]] if pair else [facts]
    findings = _sentences(table, pair)
    result, shown = _answer(table, findings, width, 8 if height > LOW else 4)
    parts = [_of_account(side) or parts_of(side) or _categories(table, f"_{letter}" if pair else "")
             for side, letter in zip(sides, "ab", strict=False)]
    side = min(46, max(30, width // 3)) if width >= 76 else 0
    gauges = _devices(facts, pair, side - 4) if side else []
    left = width - (side if gauges else 0)
    room = min(max(12 if height > LOW else 6, free - len(result) - 2), height - len(result) - 2)
    if room >= len(sides):
        bars, smaller = _time(parts, left - 4, room - len(sides))
        lines = max(len(bars), min(len(gauges), room))
        if len(gauges) > lines and gauges[lines].plain.startswith(" "):  # B's gauge is cut: A's alone compares nothing
            gauges = gauges[: lines - 1]
        pad = [Content("")] * lines
        folded = (units.counted(smaller, "smaller part", "smaller parts"),) if smaller else ()
        legend = (*folded, *(("░ more in A or B",) if any("░" in line.plain for line in bars) else ()))
        frame = Frame("Where the time goes", dim(_where(sides, left - 26)), legend=dim(" · ".join(legend)))
        drawn = boxed([*bars, *pad][:lines], frame, left)
        result += side_by_side(
            drawn, boxed([*gauges, *pad][:lines], Frame("Gauges"), side), left) if gauges else drawn
    room = height - len(result) - 2
    if room > 0 and findings[shown:]:
        result += boxed(_fitted(findings[shown:], width - 4, room)[0], Frame("More findings"), width)
    return joined(result)


def _fitted(findings: list[tuple[str, str]], cells: int, room: int) -> tuple[list[Content], int]:
    """The lines that fit into ``room``, with their marks, and the number of sentences they hold: judged ones first,
    then plain facts that fit whole."""
    judged = sum(mark in ("bad", "look", "good", "same") for mark, _ in findings) or 1

    def draw(texts: Sequence[str]) -> list[Content]:
        return [line for (mark, _), text in zip(findings, texts, strict=False) for line in marked((mark, text), cells)]

    texts = fitting([sentence for _, sentence in findings[:judged]], draw, room)
    if len(texts) == judged:
        for _, sentence in findings[judged:]:
            if len(draw([*texts, sentence])) > room:
                break
            texts.append(sentence)
    return draw(texts)[:room], len(texts)


def _sentences(table: Table, pair: bool) -> list[tuple[str, str]]:
    """Mark and sentence of each finding: problems first, then hints and what is good, then facts, unchecked last."""
    facts = table.facts
    findings = _findings(table, pair)
    if pair and findings:
        return findings
    busy = [one["busy"] for one in (facts.get("in_steps") or {}).get("devices", ()) if one["busy"] is not None]
    well = [("good" if busy and min(busy) >= BUSY else "", display(line)) for line in table.summary[:1]]
    if findings and not (well and well[0][0]):  # number, bar and gauges show it already
        well = []
    order = list(_SEVERITIES.values())
    return sorted(
        [*well, *findings], key=lambda one: order.index(one[0]) if one[0] in order else 1 if one[0] == "good" else 9)


def _answer(table: Table, findings: list[tuple[str, str]], width: int, room: int) -> tuple[list[Content], int]:
    """The framed number and findings, and how many findings are in it."""
    facts, lead, shown = table.facts, table.facts.get("lead"), 0
    base = facts.get("base") or {}
    if lead is None and base.get("per") in ("step", "cycle"):
        number, _, unit = units.duration(base["ns"]).partition(" ")
        lead = {"number": number, "caption": f"{unit}, one {base['per']}", "judgement": ""}

    def drawn(cells: int, most: int) -> list[Content]:
        nonlocal shown
        lines, shown = _fitted(findings, cells, most)
        return lines

    lines = with_number(lead, drawn, width - 4, room, stays=True)
    return boxed(lines, with_base(Frame("Overview"), facts, width), width), shown


_ROLES = {letter: family for family, letter in LETTERS.items()} | {
    letter: ROLES.get(cause, "device") for cause, letter in CAUSE_LETTERS.items()}


def _of_account(facts: dict[str, Any]) -> list[Part]:
    """The account of one step: what works and what waits, by letter."""
    account = facts.get("account") or {}
    return [Part(row["name"], row["letter"], _ROLES.get(row["letter"], "other"), row["ns"])
            for row in account.get("rows", ())]


def parts_of(facts: dict[str, Any]) -> list[Part]:
    """Kernel families and idle causes of the first device, over its steps if it has any."""
    families = facts.get("families") or []
    device = _first(facts)
    of = next((one["families"] for one in families if device is None or (
        one["device"] == device["device"] and one["rank"] in (None, device["rank"]))), None)
    if not of:
        return []
    scale = device["busy_ns"] / sum(of.values()) if device and sum(of.values()) else 1.0
    result = [Part(TITLES[one], LETTERS[one], one, ns * scale) for one, ns in of.items() if ns]
    if device is None:
        return result
    causes = [(cause, ns) for cause, ns in device["causes"].items() if ns >= LEAST * device["window_ns"]]
    result += [Part(idle_name(cause), "", ROLES.get(cause, "device"), ns) for cause, ns in causes]
    if (rest := device["idle_ns"] - sum(ns for _, ns in causes)) > 0:
        result.append(Part("idle: other causes", "", "device", rest))
    return result


def _categories(table: Table, side: str) -> list[Part]:
    """The step breakdown, used where there are no figures per device."""
    names = [column.name for column in table.columns]
    rows = [dict(zip(names, values, strict=True)) for values in table.window(0, len(table))]
    return [Part(str(row["category"]), "", _CATEGORIES.get(row["category"], "other"), row[f"time_ns{side}"])
            for row in rows if row[f"time_ns{side}"]]


def _where(sides: Sequence[dict[str, Any]], room: int) -> str:
    """Device and length of the time shown, for two runs both lengths; shortened to fit ``room``."""
    if (account := sides[0].get("account")) and len(sides) == 1:
        return f"{units.duration(account['of_ns'])}, every nanosecond once"[:max(0, room)] if room > 30 else ""
    devices = [one for one in map(_first, sides) if one is not None]
    if not devices:
        return ""
    text = " → ".join(units.duration(one["window_ns"]) for one in devices)
    within = f"{text} in steps" if sides[0].get("in_steps") else text
    named = f"{devices[0]['device'] or 'device'}, {within}"
    return next((one for one in (named, within) if len(one) <= room), text)


def _first(facts: dict[str, Any]) -> dict[str, Any] | None:
    """Sums of the first device over the steps, or over the recording if it has none."""
    about = facts.get("in_steps") or facts.get("in_recording") or {}
    return next(iter(about.get("devices", ())), None)


def _time(parts: list[list[Part]], width: int, room: int) -> tuple[list[Content], int]:
    """One bar per run, then a line for each part that fits: time and share for one run, both shares and their
    difference for two. Also returns how many parts do not fit."""
    result: list[Content] = []
    for side, letter in zip(parts, "AB" if len(parts) > 1 else " ", strict=False):
        bar = stacked([(one.name, one.role, one.ns) for one in side], width - (2 if letter != " " else 0))
        result.append(Content.assemble((f"{letter} " if letter != " " else "", B if letter == "B" else A), bar))
    totals = [sum(one.ns for one in side) or 1.0 for side in parts]
    shares = [{one.name: one.ns / total for one in side} for side, total in zip(parts, totals, strict=True)]
    every = {one.name: one for side in parts for one in side}
    most = {name: max(side.get(name, 0.0) for side in shares) for name in every}
    order = sorted(every, key=lambda name: -most[name])
    wide = min(34, width - (19 if len(parts) == 1 else 18), max((len(name) for name in order), default=0))
    for name in order[:room]:
        one, values = every[name], [side.get(name, 0.0) for side in shares]
        head = [(f"{one.letter or '·'} ", content_style(one.role)), (cells.fit(name, wide), "")]
        if len(parts) == 1:
            head.append((f"{units.duration(one.ns):>9}", ""))
        head += [(f"{units.percent(100 * value):>7} ", "") for value in values]
        space = width - sum(len(text) for text, _ in head)
        if len(parts) > 1:
            points = 100 * (values[1] - values[0])
            change = f"{units.percent(points, signed=True)[:-1]:>6} pt" if space >= 9 and abs(points) >= 0.05 else ""
            head.append((change.ljust(min(space, 10)), content_style("dim")))
            space -= 10
        if space >= LEAST_BAR:
            least, largest = min(values) / max(most.values()), most[name] / max(most.values())
            drawn = cells.bar(least, space).rstrip()
            more = max(0, round(space * largest) - len(drawn))
            head.append((drawn + "░" * more, content_style(one.role)))
        result.append(Content.assemble(*head))
    return result, max(0, len(order) - room)


def _devices(facts: dict[str, Any], pair: bool, width: int) -> list[Content]:
    """Gauges of each device for the figures that were measured."""
    result: list[Content] = []
    sides = [("a", A), ("b", B)] if pair else [("", A)]
    by_side = {side: _gauged((facts.get(side) or {}) if side else facts) for side, _ in sides}
    names = list(dict.fromkeys(str(one.get("device") or "GPU") for devices in by_side.values() for one in devices))
    for name in names[: MOST_DEVICES * len(sides)]:
        lines = []
        for key, title in _GAUGES:
            label = title
            for side, colour in sides:
                share = next((one.get(key) for one in by_side[side] if str(one.get("device") or "GPU") == name), None)
                if share is not None:
                    named = f"{label:<11}{f' {side.upper()}' if side else ''}"
                    lines.append(gauge(named, share, width, colour if pair else ""))
                    label = ""
        if lines:
            result += [Content.styled(display(name, 24), "bold"), *lines]
    used = {side: _used((facts.get(side) or {}) if side else facts) for side, _ in sides}
    for side, colour in sides:
        if used[side] is not None:
            label = "" if side == "b" and used["a"] is not None else "MFU"
            result.append(gauge(f"{label:<11}{f' {side.upper()}' if side else ''}", used[side] or 0.0, width,
                              colour if pair else ""))
    if result and (more := len(names) - MOST_DEVICES * len(sides)) > 0:
        result.append(Content.styled(f"{units.counted(more, 'more device', 'more devices')} in 9, 8", QUIET))
    return result


def _used(facts: dict[str, Any]) -> float | None:
    """MFU: FLOPs of a cycle / what its device could compute in that time; None where unknown."""
    rows = (row for one in facts.get("rules") or () if one["rule"] == "utilisation" for row in one["rows"])
    return next((row["mfu"] for row in rows), None)


def _gauged(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The devices with ``busy`` over the steps, as sentences give it; torch_tb_profiler's utilisation only without."""
    steps = {(one["device"], one["rank"]): one["busy"] for one in (facts.get("in_steps") or {}).get("devices", ())}
    alike = {device: busy for (device, _), busy in steps.items()}
    result = []
    for one in facts.get("devices") or []:
        busy = steps.get((one.get("device"), one.get("rank")), alike.get(one.get("device"), one.get("busy")))
        result.append(one | {"busy": busy, "utilisation": one.get("utilisation") if busy is None else None})
    return result


def _findings(table: Table, pair: bool) -> list[tuple[str, str]]:
    """Severity mark and sentence of each finding, except those the bars show; unchecked ones last."""
    facts = table.facts
    if pair:
        lead = facts.get("lead") or {}
        lines = [(lead.get("judgement", "") if at == 0 else "", display(str(one)))
                 for at, one in enumerate(facts.get("findings") or []) if " busy " not in str(one)]
        for side in "ab":
            named = side == "b" and lead and lead["judgement"] != "bad"  # the first sentence names B's outliers
            lines += [(judged, f"{side.upper()}: {sentence}")
                      for judged, sentence in _ruled(facts[side], "slow cycles" if named else "") if judged]
        return lines
    lines = _ruled(facts)
    if facts.get("unchecked"):
        lines.append(("unchecked", display(str(facts["unchecked"]))))
    return lines


def _ruled(facts: dict[str, Any], but: str = "") -> list[tuple[str, str]]:
    return [(_SEVERITIES.get(one["severity"], ""), display(one["sentence"])) for one in facts.get("rules") or []
            if one["severity"] != "unchecked" and one["rule"] not in (*_DRAWN, but)]
