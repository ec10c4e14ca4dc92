"""The picture of the overview: the answer in lines, the whole run on a time axis, the account of one step, what to do.

Of two runs: the answer with its cause, both steps on one scale, the account of the difference, both runs on one axis.
As the terminal shrinks go first gauges, then what to do, the times below the axis, the axis, and rows of the account;
the first two lines, the base and three rows of the account stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from textual.content import Content

from ...analysis.core import units
from ...analysis.core.text import display
from ...analysis.overview.lines import WORTH, saved_at_most
from ..list import cells
from ..list.frame import Frame, boxed, dim, pieces_of, with_base
from ..session.themes import content_style
from ..widgets.answer_lines import answer_frame
from ..widgets.drawing import QUIET, A, B, gauge, joined, side_by_side, wrapped
from ..widgets.time_axis import axis_line, load_line, phase_line, step_bar
from .overview_parts import (
    CASES,
    LEAST_BAR,
    LEAST_ROWS,
    Lines,
    Part,
    categories,
    change,
    first_device,
    of_account,
    parts_of,
    smaller_parts,
)

if TYPE_CHECKING:
    from ...analysis.table.table import Table

LED = 100
"""Cells from which the key figure stands beside the answer in large digits."""
TALL, LOW = 24, 14
"""Lines of the picture above which everything is in it, and up to which only what matters most is."""
MOST_LINES = 6
"""Most lines of the answer in a tall picture."""
MOST_LANES = 4
"""Most devices of a run on the time axis."""
MOST_DEVICES = 2
_GAUGES = (
    ("busy", "busy"), ("utilisation", "utilisation"), ("sm_efficiency", "SM in use"),
    ("occupancy", "occupancy"), ("tensor_share", "tensor time"),
)


def overview_picture(table: Table | None, failed: str, width: int, height: int, free: int = 0) -> Content:
    """The picture in ``width`` cells and at most ``height`` lines, the answer first; rows of the account may take
    ``free`` lines in all, those the list below does not need."""
    if table is None:
        lines = [line for one in failed.split("\n") for line in wrapped(one, width - 4)]
        return joined(boxed(lines, Frame("Overview"), width))
    facts, pair = table.facts, "a" in table.facts
    tall = height > TALL
    most = _lanes(facts) + 2 if tall else 1 if height <= LOW else 2 if pair else 3
    axis = _axis(facts, width - 4, most)
    lines = _answer(table, width, MOST_LINES if tall else 2)
    rest = height - len(lines)
    shown = bool(axis) and rest - len(axis) - 2 >= 3 + LEAST_ROWS - (height <= LOW)
    frame = Frame("Whole runs" if pair else "Whole run", dim(_length(facts, pair)))
    framed = boxed(axis, frame, width) if shown else []
    todo = _to_do(facts, width, 3) if tall and not pair else []
    rest -= len(framed) + len(todo)
    rest = max(rest, free - height + rest)
    account = change(facts, width, rest) if pair else _step(table, width, rest)
    return joined([*lines, *account, *framed] if pair else [*lines, *framed, *account, *todo])


def _lanes(facts: dict[str, Any]) -> int:
    """Lines for the devices of one run, or of two, on the time axis of a tall terminal."""
    loads = [one.get("load") or {"devices": ()} for one in (facts.get("a", facts), facts.get("b", {}))]
    return sum(min(MOST_LANES, len(one["devices"])) for one in loads)


def _answer(table: Table, width: int, room: int) -> Lines:
    """The answer: its number, the lines that fit, and how many do not."""
    facts = table.facts
    lines = facts.get("lines") or [{"kind": "data", "mark": "·", "long": one, "short": one} for one in table.summary]
    framed = with_base(Frame("What changed" if "a" in facts else "Answer", dim(_steps(facts))), _bases(facts), width)
    frame, drawn = answer_frame(framed, lines, _lead(facts), width, room)
    return boxed(drawn, frame, width)


def _bases(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts that hold the base; of two runs with an account it is the mean of the compared steps of each."""
    rows = (facts.get("account") or {}).get("rows") or ()
    if "a" not in facts or not rows:
        return facts
    sides = {}
    for side in "ab":
        length = units.duration(sum(one[f"{side}_ns"] for one in rows))
        sides[side] = {"base": {"per": "step", "label": "", "label_short": f"of a compared step, {length}"}}
    return sides


def _lead(facts: dict[str, Any]) -> dict[str, Any] | None:
    base = facts.get("base") or {}
    if facts.get("lead") is None and base.get("per") in ("step", "cycle"):
        number, _, unit = units.duration(base["ns"]).partition(" ")
        name = (facts.get("step") or {}).get("name") or base["per"]
        return {"number": number, "caption": f"{unit}, one {name}", "judgement": ""}
    lead: dict[str, Any] | None = facts.get("lead")
    return lead


def _steps(facts: dict[str, Any]) -> str:
    """'6 steps', of two runs 'per step'."""
    steps = [one.get("step") or {} for one in ((facts["a"], facts["b"]) if "a" in facts else (facts,))]
    if not all(one.get("whole") for one in steps):
        return ""
    name = steps[0]["name"]
    if len(steps) == 1:
        ranks = len({one.get("rank") for one in (facts.get("load") or {}).get("devices", ())}) or 1
        each, rest = divmod(steps[0]["whole"], ranks)
        if ranks > 1 and not rest:
            return f"{units.counted(each, name, f'{name}s')} on each of {ranks} ranks"
        return units.counted(steps[0]["whole"], name, f"{name}s")
    return f"per {name}"


def _length(facts: dict[str, Any], pair: bool) -> str:
    loads = [one["load"] for one in ((facts["a"], facts["b"]) if pair else (facts,)) if one.get("load")]
    lengths = [one["column_ns"] * len(one["devices"][0]["busy"]) for one in loads]
    if pair:
        return f"one scale, {units.duration(max(lengths))}" if lengths else ""
    return units.duration(lengths[0]) if lengths else ""


def _axis(facts: dict[str, Any], width: int, room: int) -> Lines:
    """Phases and load of each device from the first to the last event, as many lines as there is room for: the load of
    the busiest device first, then the phases, the times and further devices. Two runs are on one scale."""
    pair = "a" in facts
    sides = [(f"{side.upper()} ", facts[side], A if side == "a" else B) for side in "ab"] if pair else [("", facts, "")]
    sides = [one for one in sides if one[1].get("load")]
    if not sides or room < len(sides):
        return []
    each = [{"head": head, "phases": own.get("phases") or [], "length": own["load"]["column_ns"] * len(
        own["load"]["devices"][0]["busy"]), "devices": own["load"]["devices"]} for head, own, _ in sides]
    longest = max(one["length"] for one in each)
    phases = room >= 2 * len(each) and any(one["phases"] for one in each)
    times = room >= (2 if phases else 1) * len(each) + 1
    lanes = max(1, (room - times) // len(each) - phases)
    names = [head + _device(one) for (head, own, _) in sides for one in own["load"]["devices"]]
    label = max(8, *(len(name) for name in names)) + 2 if width > 60 else max(len(name) for name in names) + 1
    space = width - label
    name = str((facts.get("step") or (facts.get("a") or {}).get("step") or {}).get("name") or "step")
    result: Lines = []
    for one in each:
        own = max(4, round(one["length"] / longest * space))
        if phases:
            result.append(phase_line(one["phases"], one["length"], own, label, f"{one['head']}phase", name))
        devices = sorted(one["devices"], key=lambda device: -sum(device["busy"]))[:lanes]
        shown = [device for device in one["devices"] if device in devices]
        result += [load_line(one["head"] + _device(device), device["busy"], own, label) for device in shown]
        if (more := len(one["devices"]) - len(shown)) > 0 and times:
            text = f"{units.counted(more, 'more device', 'more devices')}: keys 8, 9"
            result.append(Content.styled(" " * label + text, QUIET))
    return [*result, *([axis_line(longest, space, label)] if times else [])]


def _device(one: dict[str, Any]) -> str:
    rank = "" if one.get("rank") is None else f"r{one['rank']} "
    return display(f"{rank}{one['device'] or 'device'}", 14)


def _step(table: Table, width: int, room: int) -> Lines:
    """Where one step goes: a bar of letters, then the parts with their sums; gauges beside it where there is room."""
    facts = table.facts
    parts = of_account(facts) or parts_of(facts) or categories(table, "")
    if not parts or room < 2 + 2:
        return []
    side = min(46, max(30, width // 3)) if width >= LED else 0
    gauges = _devices(facts, False, side - 4) if side else []
    left = width - (side if gauges else 0)
    bars, smaller = _time(parts, left - 4, room - 3)
    lines = max(len(bars), min(len(gauges), room - 2))
    pad = [Content("")] * (lines - len(bars))
    one = (facts.get("step") or {}).get("name") or "step"
    of_one = facts.get("account") and (facts.get("base") or {}).get("per") != "recording"
    frame = Frame(f"Where one {one} goes" if of_one else "Where the time goes",
                  dim(_where([facts], left - 20 - len(one))), legend=CASES if left > 60 else (),
                  position=smaller_parts(smaller))
    drawn = boxed([*bars, *pad], frame, left)
    if not gauges:
        return drawn
    gauges = [*gauges, *[Content("")] * lines][:lines]
    return side_by_side(drawn, boxed(gauges, Frame("Gauges"), side), left)


def _time(parts: Sequence[Part], width: int, room: int) -> tuple[Lines, int]:
    """The bar, then a line for each part that fits; also how many do not."""
    total = sum(one.ns for one in parts) or 1.0
    result = [step_bar([(one.letter, one.role, one.ns) for one in parts], width, total)]
    order = sorted(parts, key=lambda one: -one.ns)
    wide = min(34, width - 20, max(len(one.name) for one in order))
    for one in order[:room]:
        head = f"{cells.fit(one.name, wide)} {units.duration(one.ns):>9} {units.percent(100 * one.ns / total):>6} "
        space = width - 2 - len(head)
        bar = cells.bar(one.ns / order[0].ns, space).rstrip() if space >= LEAST_BAR else ""
        style = content_style(one.role)
        result.append(Content.assemble((f"{one.letter or '·'} ", style), head, (bar, style)))
    return result, max(0, len(order) - room)


def _to_do(facts: dict[str, Any], width: int, most: int) -> Lines:
    """What can be done, the largest saving first: its mark, what it saves of the base (predicted, or with ≤ the time it
    is about), what it is, and where the evidence is. What saves under a hundredth of the base is left out."""
    base = (facts.get("base") or {}).get("ns")
    marks = {"problem": "✗", "hint": "!"}
    saves = {id(one): saved_at_most(one) for one in facts.get("rules") or ()}
    rows = [one for one in facts.get("rules") or () if one["severity"] in marks and one.get("view")]
    rows = [one for one in rows if (saved := saves[id(one)]) is None or not base or saved >= WORTH * base]
    if most < 1 or not rows:
        return []
    rows.sort(key=lambda one: -(saves[id(one)] or 0.0))
    short = {line["long"]: line["short"] for line in facts.get("lines") or ()}
    result = []
    for one in rows[:most]:
        saved, where, what = saves[id(one)], _evidence(one), display(one["sentence"])
        bound = "≤ " if saved and one.get("time_to_win_ns") is None else "  "
        much = f"{'–':>15}" if not saved or not base else (
            f"{units.duration(saved):>9} {units.percent(100 * saved / (one.get('of_ns') or base)):>5}")
        room = max(10, width - 4 - 21 - len(where) - 2)
        result.append(Content.assemble(
            (f"{marks[one['severity']]} ", f"bold {content_style('bad' if one['severity'] == 'problem' else 'warn')}"),
            f"{bound}{much}  ",
            cells.fit(what if len(what) <= room else short.get(what, what), room), "  ", (where, QUIET)))
    cut, bounds = len(rows) - len(result), any(one.get("time_to_win_ns") is None for one in rows[:most])
    position = pieces_of([dim(f"▾ {cut} more" if cut else ""), dim("≤ at most; b What-if replays" if bounds else "")])
    name, per = (facts.get("step") or {}).get("name"), (facts.get("base") or {}).get("per")
    of = f" of {units.each(str(name))}" if name and per != "recording" else ""
    return boxed(result, Frame("What to do", dim(f"what it saves{of}, largest first"), position=position), width)


def _evidence(rule: dict[str, Any]) -> str:
    """Where the evidence of a finding is: '8 Idle cause=input'."""
    from ...analysis.views import VIEWS

    entry = next((one for one in VIEWS if one.name == rule["view"]), None)
    if entry is None:
        return ""
    given = rule.get("filter") or ""
    return f"{entry.key or '…'} {entry.title}{f': {given}' if given and len(given) <= 18 else ''}"


def _where(sides: Sequence[dict[str, Any]], room: int) -> str:
    """Device and length of the time shown, for two runs both lengths; shortened to fit ``room``."""
    if (account := sides[0].get("account")) and len(sides) == 1:
        return f"{units.duration(account['of_ns'])}, every nanosecond once"[:max(0, room)] if room > 30 else ""
    devices = [one for one in map(first_device, sides) if one is not None]
    if not devices:
        return ""
    text = " → ".join(units.duration(one["window_ns"]) for one in devices)
    within = f"{text} in steps" if sides[0].get("in_steps") else text
    named = f"{devices[0]['device'] or 'device'}, {within}"
    return next((one for one in (named, within) if len(one) <= room), text)


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
        result.append(Content.styled(f"{units.counted(more, 'more device', 'more devices')}: keys 8, 9", QUIET))
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
