"""The parts of a step on the overview: of one run, and of two on one scale with the account of their difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from textual.content import Content

from ...analysis.core import units
from ...analysis.idle.cause_meanings import CAUSE_LETTERS, ROLES, idle_name
from ...analysis.kernels.family import LETTERS, TITLES
from ..list import cells
from ..list.frame import Frame, Pieces, boxed, dim
from ..session.themes import content_style
from ..widgets.drawing import QUIET, A, B
from ..widgets.time_axis import step_bar

if TYPE_CHECKING:
    from ...analysis.table.table import Table

Lines = list[Content]
LEAST_BAR = 4
"""Least cells to draw a bar in."""
LEAST_ROWS = 3
"""Rows of the account that are always there."""
LEAST = 0.005
"""Idle causes under this share of the time are combined."""
CASES = dim("lower case works, UPPER CASE waits")
_CATEGORIES = {
    "Kernel": "gemm", "Memcpy": "copy", "Memset": "copy", "Communication": "collective", "Runtime": "launch",
    "DataLoader": "python", "CPU Exec": "op", "Other": "device",
}


class Part(Struct, frozen=True):
    """A part of the time: name, letter ('' for none), style role and ns."""

    name: str
    letter: str
    role: str
    ns: float


_ROLES = {letter: family for family, letter in LETTERS.items()} | {
    letter: ROLES.get(cause, "device") for cause, letter in CAUSE_LETTERS.items()}


def _role(letter: str) -> str:
    return _ROLES.get(letter, "other")


def of_account(facts: dict[str, Any]) -> list[Part]:
    """The account of one step: what works and what waits, by letter."""
    account = facts.get("account") or {}
    return [Part(row["name"], row["letter"], _role(row["letter"]), row["ns"])
            for row in account.get("rows", ())]


def parts_of(facts: dict[str, Any]) -> list[Part]:
    """Kernel families and idle causes of the first device, over its steps if it has any."""
    families = facts.get("families") or []
    device = first_device(facts)
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


def categories(table: Table, side: str) -> list[Part]:
    """The step breakdown, used where there are no figures per device."""
    names = [column.name for column in table.columns]
    rows = [dict(zip(names, values, strict=True)) for values in table.window(0, len(table))]
    return [Part(str(row["category"]), "", _CATEGORIES.get(row["category"], "other"), row[f"time_ns{side}"])
            for row in rows if row[f"time_ns{side}"]]


def change(facts: dict[str, Any], width: int, room: int) -> Lines:
    """Both steps on one scale, then the rows that account for the difference, with their sum."""
    account = facts.get("account") or {}
    rows = account.get("rows") or []
    sides = [[Part(one["name"], one["letter"], _role(one["letter"]), one[f"{side}_ns"]) for one in rows]
             or of_account(facts[side]) or parts_of(facts[side]) for side in "ab"]
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
                  dim(f"0–{units.duration(longest)}"), legend=CASES)
    if rows and room < 12:
        table, more = _rows_ofchange(rows, inside, room - 4, account["delta_ns"], sums)
        covered = f"{len(rows) - more} of {len(rows)} rows"
        title = f"Where the {units.duration(abs(account['delta_ns']))} went"
        return boxed([*result, *table], Frame(title, legend=CASES if width > 70 else (), position=dim(covered)), width)
    drawn = boxed(result, frame, width)
    room -= len(drawn)
    if not rows:
        return [*drawn, *_both_lists(sides, width, room)]
    if room < 4:
        return drawn
    table, more = _rows_ofchange(rows, inside, room - 2, account["delta_ns"], sums)
    covered = f"{len(rows) - more} of {len(rows)} rows" if more else units.counted(len(rows), "row", "rows")
    title = f"Where the {units.duration(abs(account['delta_ns']))} went"
    return [*drawn, *boxed(table, Frame(title, dim("largest change first"), position=dim(covered)), width)]


def _rows_ofchange(
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
    return boxed(result, Frame("Where the time goes", note, position=smaller_parts(len(names) - (room - 3))), width)


def smaller_parts(parts: int) -> Pieces:
    """How many parts have no row, for a frame."""
    return dim(units.counted(parts, "smaller part", "smaller parts")) if parts > 0 else ()


def first_device(facts: dict[str, Any]) -> dict[str, Any] | None:
    """Sums of the first device over the steps, or over the recording if it has none."""
    about = facts.get("in_steps") or facts.get("in_recording") or {}
    return next(iter(about.get("devices", ())), None)
