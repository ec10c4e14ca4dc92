"""Composition of the timeline's frames: the overview, the visible lanes, and the slice under the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from textual.strip import Strip

from ....analysis.core import units
from ....analysis.core.text import display
from ....analysis.kernels.family import LETTERS, TITLES
from ...list import frame
from . import painter
from .painter import Painter, Selected
from .view import FRAMED, LaneView

if TYPE_CHECKING:
    from ....analysis.timeline.layout import Row
    from ....analysis.timeline.window import Window


def draw(view: LaneView) -> tuple[list[Strip], list[int | None]]:
    """All lines (overview with the window, visible lanes, selection), and each line's row number (None: no row)."""
    paint, height = view.painter(), view.size.height
    if not view.runs or height < 4:
        return [Strip.blank(view.size.width, paint.look.base)] * height, []
    framed, (start, end) = height >= FRAMED, view.window_ns
    windows = [view.window(run) for run in range(len(view.runs))]
    cycle = view.cycle_shown()
    head = _overview(view, paint, windows, cycle) if framed else []
    of = "of the recording" if len(view.runs) < 2 else "of A"
    label = "" if cycle is None else f", {display(view.runs[0].marks.labels[cycle], 40)}"
    head.append(paint.upper(frame.Frame(
        units.span_text(start, end), frame.dim(of + label),
        frame.dim(_aligned(view, cycle)) if framed else view.frame.right), True))
    head.append(paint.ruler(windows[0]))
    room = view.room()
    lanes, numbers = _lanes(view, paint, windows, room)
    blank = [paint.line([], True)] * (room - len(lanes))
    return [*head, *lanes, *blank, *foot(view)][:height], [*[None] * len(head), *numbers]


def _overview(view: LaneView, paint: Painter, windows: Sequence[Window], cycle: int | None) -> list[Strip]:
    """The frame of the overview: of the cycle in view, else of the whole recording."""
    from ....analysis.timeline.window import Window

    first, last = view.whole()
    title = f"{'Both recordings' if len(view.runs) > 1 else 'Whole recording'} {units.duration(last - first)}"
    if cycle is not None:  # its work on the device, or the cycle of the other run, may end later
        marks = view.runs[0].marks
        first, end = int(marks.starts[cycle]), int(marks.ends[cycle])
        last = max(end, view.window_ns[1])
        title = f"Cycle {units.duration(end - first)}" + (
            f" · {units.duration(last - first)} shown" if last > end else "")
    devices = sorted({lane.device or "the device" for one in view.runs for lane in one.drawn if lane.tid is None})
    who = devices[0] if len(devices) == 1 else "the devices"
    what = f"how much of it {who} ran" if devices else ""
    length = units.duration(view.window_ns[1] - view.window_ns[0])
    border = frame.Frame(title, frame.dim(what), (*view.frame.right, (" · ", "dim"), (f"{length} below", "dim")))
    wholes = [Window(first + off, last + off, paint.columns) for off in view.offsets]
    return [paint.upper(border), *paint.minimaps(view.runs, wholes, windows), paint.lower()]


def _aligned(view: LaneView, cycle: int | None) -> str:
    if len(view.runs) < 2:
        clocks = view.runs[0].clocks
        return f"all ranks on the clock of rank {next(iter(clocks))}" if any(clocks.values()) else ""
    if view.aligned_at is not None:
        of = "the cycle" if cycle is not None else display(view.runs[0].marks.labels[view.aligned_at], 24)
        return f"aligned at the start of {of}"
    by = "cycle" if all(len(one.marks.starts) for one in view.runs) else "activity"
    return f"aligned at the first {by}"


def _lanes(
    view: LaneView, paint: Painter, windows: Sequence[Window], room: int
) -> tuple[list[Strip], list[int | None]]:
    """The visible rows in ``room`` lines, and the row number of each line."""
    from ....analysis.timeline.classes import CLASSES
    from ....analysis.timeline.picture import lines_of

    rows = view.rows()
    result, numbers, classes = list[Strip](), list[int | None](), set[int]()
    for run, (one, share) in enumerate(zip(view.runs, view.rooms(), strict=True)):
        if not share:
            continue
        if result:
            result.append(paint.seam())
        if view.cycle_lines:
            result.append(paint.cycles(one, windows[run]))
        matching = [(note.start, note.text) for note in view.notes if note.run == run]
        if view.noted(run):
            result.append(paint.notes(matching, view.ranges[run], windows[run]))
        numbers += [None] * (len(result) - len(numbers))
        shown = [at for at in range(view.tops[run], min(len(rows), view.tops[run] + share)) if rows[at][0] == run]
        lines = lines_of(one, [rows[at][1] for at in shown], windows[run], view.offsets[run])
        until = len(result) + share
        for at, line in zip(shown, lines, strict=True):
            row = rows[at][1]
            if row.lane is not None and row.lane.tid is None:
                classes |= {code for code, sign in zip(line.classes.tolist(), line.lines[-1], strict=True)
                            if sign != " "}
            result += paint.row("AB"[run] if len(view.runs) > 1 else "", row, line,
                              _busy(row, windows[run]) if row.lines > 1 else (), view.column, at == view.selected)
            numbers += [at] * (len(result) - len(numbers))
        del result[until:], numbers[until:]
    view.families = {CLASSES[code] for code in classes}
    return result[:room], numbers[:room]


def _busy(row: Row, window: Window) -> tuple[str, ...]:
    """Busy time of a stream, rows for overlapping slices included, and its share of the window."""
    if row.lane is None:
        return ()
    coverage = row.lane.stream_busy or row.lane.busy
    ran = int(coverage.busy(np.array([window.start, window.end]))[0])
    share = units.percent(100 * ran / max(1, window.end - window.start))
    if row.lines < 3:
        return (f"  {units.duration(ran)} {share}",)
    return f"  {units.duration(ran)} busy", f"  {share}"


def foot(view: LaneView) -> list[Strip]:
    """The lower border of the lanes, and the slice or gap under the cursor."""
    paint, rows = view.painter(), view.rows()
    position = f"line {view.selected + 1} of {len(rows)}" if rows else ""
    families = [f"{LETTERS[one]} {TITLES[one]}" for one in LETTERS if one in view.families]
    signs = ["▂ ░ ╌ busy part of the column: kernels, host; collectives; copies"] if families else []
    brief = ["▂ ░ ╌ busy: kernels, host; collectives; copies"] if families else []
    letters = [" ".join(LETTERS[one] for one in LETTERS if one in view.families)]
    ways = ([frame.dim(one) for one in way] for way in (
        [*families, *signs], [*families, *brief], [*letters, *brief], families))
    legend = frame.widest(view.size.width, *ways)
    lower = paint.lower(frame.Frame(legend=legend, position=frame.dim(position)), True)
    chosen = _selection(view)
    lines = paint.selection(chosen, view.chosen_lines)
    if view.size.height < FRAMED:
        return [*lines, lower]
    upper = paint.upper(frame.Frame(chosen.name, frame.dim(chosen.note)))
    return [lower, upper, *lines, paint.lower()]


def _selection(view: LaneView) -> Selected:
    """The slice or gap under the cursor; with two runs beside the same launch of the other run."""
    from ....analysis.core.names.short_name import fit_name
    from ....analysis.timeline.place import counterpart, describe

    lane, rows, at = view.lane, view.rows(), view.slice()
    note = view.note_here()
    notes = " · ".join(filter(None, (f"◆ {note.text}" if note is not None else "", view.launch_note)))
    if lane is None or not rows:
        return Selected(painter.calls(rows[view.selected][1]) if rows else "", lines=(notes,))
    run, moment = view.run, view.moment
    text = describe(view.runs[run], lane, at, moment, "AB"[run] if len(view.runs) > 1 else "")
    if at is None:
        return Selected("gap", lines=(text, notes))
    name = fit_name(view.runs[run].names[int(lane.slices.names[at])], max(20, view.size.width // 2))
    if len(view.runs) < 2:
        return Selected(name, lines=(text, notes))
    there = counterpart((view.runs[0], view.runs[1]), run, lane, at)
    if there is None:
        return Selected(name, f"only in {'AB'[run]} at this place of the cycle", lines=(text, notes))
    own = int(lane.slices.ends[at] - lane.slices.starts[at])
    lengths = (own, there.end - there.start) if run == 0 else (there.end - there.start, own)
    remark, judged = _longer(*lengths)
    bars = tuple(
        (side, units.duration(one), one, said, mark) for side, one, said, mark in (
            ("A", lengths[0], "", ""), ("B", lengths[1], remark, judged)))
    return Selected(name, "the same launch of the cycle in both runs", bars, (notes,))


_SAME = 0.1  # Launches that differ by at most this share of the longer one count as the same duration.


def _longer(a: int, b: int) -> tuple[str, str]:
    """The change of a launch's duration in B, in words, and its severity."""
    if not a or not b or abs(b - a) <= _SAME * max(a, b):
        return "= same duration", ""
    return (f"✗ {b / a:.1f}× as long", "bad") if b > a else (f"✓ {a / b:.1f}× as fast", "good")
