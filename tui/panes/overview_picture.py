"""The picture of the overview: the answer in lines, the whole run on a time axis, the account of one step, what to do.

Of two runs: the answer with its cause, both steps on one scale, the account of the difference, both runs on one axis.
As the terminal shrinks go first gauges, then what to do, the times below the axis, the axis, and rows of the account;
the first two lines, the base and three rows of the account stay.
"""

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
from ..list.frame import Frame, Pieces, boxed, dim, pieces_of, with_base
from ..session.themes import content_style
from ..widgets.answer_lines import answer_frame
from ..widgets.drawing import QUIET, A, B, gauge, joined, side_by_side, wrapped
from ..widgets.time_axis import axis_line, load_line, phase_line, step_bar

if TYPE_CHECKING:
    from ...analysis.table.table import Table

Lines = list[Content]
LED = 100
"""Cells from which the key figure stands beside the answer in large digits."""
TALL, LOW = 24, 14
"""Lines of the picture above which everything is in it, and up to which only what matters most is."""
MOST_LINES = 6
"""Most lines of the answer in a tall picture."""
MOST_LANES = 4
"""Most devices of a run on the time axis."""
MOST_DEVICES = 2
LEAST_BAR = 4
"""Least cells to draw a bar in."""
LEAST_ROWS = 3
"""Rows of the account that are always there."""
LEAST = 0.005
"""Idle causes under this share of the time are combined."""
WORTH = 0.01
"""What saves less than this share of the base is not worth doing."""
_CATEGORIES = {
    "Kernel": "gemm", "Memcpy": "copy", "Memset": "copy", "Communication": "collective", "Runtime": "launch",
    "DataLoader": "python", "CPU Exec": "op", "Other": "device",
}
_GAUGES = (
    ("busy", "busy"), ("utilisation", "utilisation"), ("sm_efficiency", "SM in use"),
    ("occupancy", "occupancy"), ("tensor_share", "tensor time"),
)
_CASES = dim("lower case works, UPPER CASE waits")


class Part(Struct, frozen=True):
    """A part of the time: name, letter ('' for none), style role and ns."""

    name: str
    letter: str
    role: str
    ns: float


def overview_picture(table: Table | None, failed: str, width: int, height: int, free: int = 0) -> Content:
    """The picture in ``width`` cells and at most ``height`` lines, the answer first; rows of the account may take
    ``free`` lines in all, those the list below does not need."""
    if table is None:
        return joined(boxed(wrapped(failed, width - 4), Frame("Overview"), width))
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
    account = _change(facts, width, rest) if pair else _step(table, width, rest)
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
        return {"number": number, "caption": f"{unit}, one {base['per']}", "judgement": ""}
    lead: dict[str, Any] | None = facts.get("lead")
    return lead


def _steps(facts: dict[str, Any]) -> str:
    """'6 steps', of two runs 'per step'."""
    steps = [one.get("step") or {} for one in ((facts["a"], facts["b"]) if "a" in facts else (facts,))]
    if not all(one.get("whole") for one in steps):
        return ""
    name = steps[0]["name"]
    if len(steps) == 1:
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
            result.append(Content.styled(" " * label + f"{units.counted(more, 'more device', 'more devices')}: 8, 9",
                                         QUIET))
    return [*result, *([axis_line(longest, space, label)] if times else [])]


def _device(one: dict[str, Any]) -> str:
    rank = "" if one.get("rank") is None else f"r{one['rank']} "
    return display(f"{rank}{one['device'] or 'device'}", 14)


def _step(table: Table, width: int, room: int) -> Lines:
    """Where one step goes: a bar of letters, then the parts with their sums; gauges beside it where there is room."""
    facts = table.facts
    parts = _of_account(facts) or parts_of(facts) or _categories(table, "")
    if not parts or room < 2 + 2:
        return []
    side = min(46, max(30, width // 3)) if width >= LED else 0
    gauges = _devices(facts, False, side - 4) if side else []
    left = width - (side if gauges else 0)
    bars, smaller = _time(parts, left - 4, room - 3)
    lines = max(len(bars), min(len(gauges), room - 2))
    pad = [Content("")] * (lines - len(bars))
    frame = Frame("Where one step goes" if facts.get("account") and (facts.get("base") or {}).get("per") != "recording"
                  else "Where the time goes", dim(_where([facts], left - 26)), legend=_CASES if left > 60 else (),
                  position=_smaller(smaller))
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


def _change(facts: dict[str, Any], width: int, room: int) -> Lines:
    """Both steps on one scale, then the rows that account for the difference, with their sum."""
    account = facts.get("account") or {}
    rows = account.get("rows") or []
    sides = [[Part(one["name"], one["letter"], _role(one["letter"]), one[f"{side}_ns"]) for one in rows]
             or _of_account(facts[side]) or parts_of(facts[side]) for side in "ab"]
    sums = [sum(one.ns for one in side) for side in sides]
    if room < 4 or not max(sums):
        return []
    inside, longest = width - 4, max(sums)
    result: Lines = []
    for head, side, total, style in zip("AB", sides, sums, (A, B), strict=True):
        label = f"{head} {units.duration(total):>9} "
        order = [*[one for one in side if one.letter.islower()], *[one for one in side if not one.letter.islower()]]
        bar = step_bar([(one.letter, one.role, one.ns) for one in order], inside - len(label), longest)
        result.append(Content.assemble((label, style), bar))
    name = str((facts["b"].get("step") or {}).get("name") or "step")
    measured = "step" if rows or (facts["a"].get("base") or {}).get("per") != "recording" else "recording"
    frame = Frame(f"One {name if measured == 'step' else 'recording'} on one scale",
                  dim(f"0–{units.duration(longest)}"), legend=_CASES)
    if rows and room < 12:
        table, more = _rows_of_change(rows, inside, room - 4, account["delta_ns"], sums)
        covered = f"{len(rows) - more} of {len(rows)} rows"
        title = f"Where the {units.duration(abs(account['delta_ns']))} went"
        return boxed([*result, *table], Frame(title, legend=_CASES if width > 70 else (), position=dim(covered)), width)
    drawn = boxed(result, frame, width)
    room -= len(drawn)
    if not rows:
        return [*drawn, *_both_lists(sides, width, room)]
    if room < 4:
        return drawn
    table, more = _rows_of_change(rows, inside, room - 2, account["delta_ns"], sums)
    covered = f"{len(rows) - more} of {len(rows)} rows" if more else units.counted(len(rows), "row", "rows")
    title = f"Where the {units.duration(abs(account['delta_ns']))} went"
    return [*drawn, *boxed(table, Frame(title, dim("largest change first"), position=dim(covered)), width)]


def _rows_of_change(
    rows: Sequence[dict[str, Any]], width: int, room: int, delta: float, sums: Sequence[float]
) -> tuple[Lines, int]:
    wide = min(34, width - 35, max(len(one["name"]) for one in rows) + 2)
    numbers = 33
    space = width - 2 - wide - numbers - 1
    least, most = min(0.0, *(one["delta_ns"] for one in rows)), max(0.0, *(one["delta_ns"] for one in rows))
    zero = round(-least / (most - least) * (space - 1)) if space >= 12 and most > least else 0
    head = f"{'part of a step':<{wide + 2}}{'A':>11}{'B':>11}{'Δ':>11}"
    result = [Content.styled(head, QUIET)]
    with_sum = room - 1 > LEAST_ROWS + 1
    shown = rows[: room - 1 - with_sum]
    for one in shown:
        style = content_style(_role(one["letter"]))
        text = f"{cells.fit(one['name'], wide)}{_ms(one['a_ns'])}{_ms(one['b_ns'])}{_ms(one['delta_ns'], True)}"
        bar = ""
        if space >= 12 and most > least:
            size = round(abs(one["delta_ns"]) / (most - least) * (space - 1))
            bar = f" {' ' * (zero - size)}{'█' * size}│" if one["delta_ns"] < 0 else f" {' ' * zero}│{'█' * size}"
        result.append(Content.assemble((f"{one['letter']} ", style), text, (bar, style)))
    if with_sum:
        text = f"{'sum = the step':<{wide}}{_ms(sums[0])}{_ms(sums[1])}{_ms(delta, True)}"
        result.append(Content.styled("  " + text, "bold"))
    return result, len(rows) - len(shown)


def _ms(ns: float, signed: bool = False) -> str:
    return f"{units.duration(ns, signed=signed):>11}"


def _both_lists(sides: Sequence[Sequence[Part]], width: int, room: int) -> Lines:
    """The parts of two runs whose difference has no account, each with its time in A and in B."""
    names = list(dict.fromkeys((one.letter, one.name) for side in sides for one in side))
    times = [{(one.letter, one.name): one.ns for one in side} for side in sides]
    names.sort(key=lambda name: -max(side.get(name, 0.0) for side in times))
    if room < 4 or not names:
        return []
    wide = min(34, width - 4 - 24, max(len(name) for _, name in names) + 2)
    result = [Content.styled(f"{'part':<{wide + 2}}{'A':>11}{'B':>11}", QUIET)]
    for letter, name in names[: room - 3]:
        both = "".join(_ms(side[letter, name]) if (letter, name) in side else f"{'–':>11}" for side in times)
        style = content_style(_role(letter))
        result.append(Content.assemble((f"{letter or '·'} ", style), cells.fit(name, wide), both))
    note = dim("side by side; their difference is not judged")
    return boxed(result, Frame("Where the time goes", note, position=_smaller(len(names) - (room - 3))), width)


def _smaller(parts: int) -> Pieces:
    return dim(units.counted(parts, "smaller part", "smaller parts")) if parts > 0 else ()


def _to_do(facts: dict[str, Any], width: int, most: int) -> Lines:
    """What can be done, the largest saving first: its mark, what it saves of the base, what it is, and where the
    evidence is. What saves under a hundredth of the base is left out."""
    base = (facts.get("base") or {}).get("ns")
    marks = {"problem": "✗", "hint": "!"}
    saves = {id(one): one.get("time_to_win_ns") for one in facts.get("rules") or ()}
    rows = [one for one in facts.get("rules") or () if one["severity"] in marks and one.get("view")]
    rows = [one for one in rows if (saved := saves[id(one)]) is None or not base or saved >= WORTH * base]
    if most < 1 or not rows:
        return []
    rows.sort(key=lambda one: -(saves[id(one)] or 0.0))
    short = {line["long"]: line["short"] for line in facts.get("lines") or ()}
    result = []
    for one in rows[:most]:
        saved, where, what = saves[id(one)], _evidence(one), display(one["sentence"])
        much = f"{units.duration(saved):>9} {units.percent(100 * saved / base):>5}" if saved and base else f"{'–':>15}"
        room = max(10, width - 4 - 19 - len(where) - 2)
        result.append(Content.assemble(
            (f"{marks[one['severity']]} ", f"bold {content_style('bad' if one['severity'] == 'problem' else 'warn')}"),
            f"{much}  ", cells.fit(what if len(what) <= room else short.get(what, what), room), "  ", (where, QUIET)))
    cut, unknown = len(rows) - len(result), any(not saves[id(one)] for one in rows[:most])
    position = pieces_of([dim(f"▾ {cut} more" if cut else ""), dim("–: not replayed, b What-if" if unknown else "")])
    return boxed(result, Frame("What to do", dim("what each would save, largest first"), position=position), width)


def _evidence(rule: dict[str, Any]) -> str:
    """Where the evidence of a finding is: '8 Idle cause=input'."""
    from ...analysis.views import VIEWS

    entry = next((one for one in VIEWS if one.name == rule["view"]), None)
    if entry is None:
        return ""
    given = rule.get("filter") or ""
    return f"{entry.key or '…'} {entry.title}{f': {given}' if given and len(given) <= 18 else ''}"


_ROLES = {letter: family for family, letter in LETTERS.items()} | {
    letter: ROLES.get(cause, "device") for cause, letter in CAUSE_LETTERS.items()}


def _role(letter: str) -> str:
    return _ROLES.get(letter, "other")


def _of_account(facts: dict[str, Any]) -> list[Part]:
    """The account of one step: what works and what waits, by letter."""
    account = facts.get("account") or {}
    return [Part(row["name"], row["letter"], _role(row["letter"]), row["ns"])
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
