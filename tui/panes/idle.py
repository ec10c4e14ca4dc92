"""Idle: causes of each device's idle time as one bar per device, the first gaps as small timelines, then every gap."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from textual.content import Content

from ...analysis.core import units
from ...analysis.core.text import display
from ...analysis.findings.spread import share_text
from ...analysis.idle.cause_meanings import CAUSE_LETTERS, LABELS, ROLES
from ...analysis.views import Entry
from ..list import cells
from ..list.frame import Frame, Pieces, boxed, dim, widest
from ..session.jobs import QueryRunner
from ..session.session import Session
from ..session.themes import content_style
from ..widgets.drawing import QUIET, joined
from ..widgets.time_axis import step_bar
from .shown import Shown
from .table import TablePane

if TYPE_CHECKING:
    from ...analysis.details.gap_pictures import GapPicture

LEAST = 0.005
"""Causes below this share of the idle time are combined into ``other``."""
_OTHER = "other"
_CAUSES = re.compile(r"( gaps?): [^;]*")
LISTED_FROM = 30
"""Lines of the pane from which the causes of one device are a list, not only the legend of its bar."""
MOST_DRAWN = 5
"""Gaps drawn as small timelines."""
_LABEL, _BESIDE = 10, 30
"""Cells of the label left of a gap's lanes, and of the text right of them where there is room."""


class IdlePane(TablePane):
    """The idle view with its causes and the first gaps of the list."""

    draws_shares = True

    def __init__(self, entry: Entry, session: Session) -> None:
        super().__init__(entry, session)
        self._gaps: list[GapPicture] = []
        self._drawn: tuple[object, ...] = ()
        self._reading = QueryRunner(self.app)
        self._width = 0  # of the frame around the gaps, which is narrower beside the side panel

    def show(self, shown: Shown) -> None:
        """Show the answer; the first gaps of the list are read in the background."""
        super().show(shown)
        self._read_gaps()

    def on_resize(self) -> None:
        """Read the gaps again for the new width."""
        super().on_resize()
        self._read_gaps()

    def _read_gaps(self) -> None:
        shown = self.shown
        if shown is None or "start_ns" not in shown.table.rows.schema:
            self._gaps, self._drawn = [], ()
            return
        names = [column.name for column in shown.table.columns]
        rows = [dict(zip(names, values, strict=True)) for values in shown.table.window(0, MOST_DRAWN)]
        columns = _columns((self._width or self.size.width) - 4)
        asked = (self._epoch, columns, *(row["index"] for row in rows))
        if asked == self._drawn or columns < 20:
            return
        self._drawn = asked
        (run, *_), _ = self.session.question(shown.view, self.subject)

        def job() -> list[GapPicture]:
            from ...analysis.details.gap_pictures import gap_pictures

            return gap_pictures(run, rows, columns)

        def take(value: Any) -> None:
            self._gaps = value if isinstance(value, list) else []
            self.drawing.redraw()
            self.make_room()

        self._reading.ask(job, take)

    def sentences(self, shown: Shown) -> tuple[str, ...]:
        """The summary without the shares of the causes, which the bars show."""
        lines = tuple(_CAUSES.sub(r"\1", line) for line in super().sentences(shown))
        if self._lists_causes(self._devices()):  # which the list below says
            lines = (lines[0].partition(": ")[0], *lines[1:])
        return lines

    def picture(self, width: int) -> Content:
        """The answer, and below it the gaps in a frame of their own."""
        summary = super().picture(width)
        if self.shown is None or self.message:
            return summary
        if width != self._width:
            self._width = width
            self._read_gaps()
        room = self.size.height * 3 // 5 - len(summary.plain.splitlines()) - 2
        gaps: list[GapPicture] = []
        lines: list[Content] = []
        for one in self._gaps:
            drawn = gap_lines(one, width - 4)
            if len(lines) + len(drawn) > room:
                break
            gaps, lines = [*gaps, one], [*lines, *drawn]
        if not gaps:
            return summary
        on_host = list(dict.fromkeys(slice.cause for one in gaps for slice in one.host))
        letters: list[Pieces] = [((_letter(cause), ROLES.get(cause, "device")), (f" {_label(cause)}", "dim"))
                                 for cause in CAUSE_LETTERS if cause in on_host]
        if any(one.row["drained_by"] for one in gaps):
            letters.insert(0, dim("◂ what emptied the queue"))
        frame = Frame("Longest gaps" if self.shown.table.sorted_by is None else "First gaps",
                      dim("what ran before, after and on the host"), legend=widest(width, letters))
        return joined([summary, *boxed(lines, frame, width)])

    def drawn_text(self) -> tuple[str, ...]:
        """The bars and the gaps as text, for an export."""
        bars = (f"{name}  " + " · ".join(f"{_letter(cause)} {_label(cause)} {units.duration(ns)}"
                                         for cause, ns in _parts(one)) for name, one in self._devices())
        return (*bars, *(line.plain.rstrip() for one in self._gaps for line in gap_lines(one, 116)))

    def _devices(self) -> list[tuple[str, dict[str, Any]]]:
        """Label and figures of each device with idle time, of one run or of both."""
        facts = self.shown.base.facts if self.shown is not None else {}
        sides = [("", facts)] if "devices" in facts else [("A ", facts.get("a") or {}), ("B ", facts.get("b") or {})]
        devices = [(side + _name(one), one) for side, known in sides
                   for one in (known.get("in_steps") or known).get("devices", ()) if one["idle_ns"]]
        return devices if len(sides) > 1 else sorted(devices, key=lambda one: -one[1]["idle_ns"] / one[1]["window_ns"])

    def evidence(self, width: int) -> list[Content]:
        """One bar per device, as many as there is room for."""
        devices, room = self._devices(), max(1, self.size.height // 3 - 3)
        label = max((len(name) for name, _ in devices), default=0) + 1
        result = []
        for name, one in devices[:room]:
            share = f" {share_text(one['idle_ns'] / max(1, one['window_ns'])):>4} idle"
            parts = [("·", "dim", float(max(0, one["window_ns"] - one["idle_ns"])))]
            parts += [(_letter(cause), ROLES.get(cause, "device"), float(ns)) for cause, ns in _parts(one)]
            bar = step_bar(parts, width - label - len(share), float(one["window_ns"]))
            result.append(Content.assemble((cells.fit(name, label), QUIET), bar, (share, "bold")))
        if self._lists_causes(devices):
            result += self._causes(devices[0][1], width)
        if len(devices) > room:
            result.append(Content.styled(f"{units.counted(len(devices) - room, 'more device', 'more devices')}", QUIET))
        return result

    def _lists_causes(self, devices: list[tuple[str, dict[str, Any]]]) -> bool:
        return len(devices) == 1 and self.size.height >= LISTED_FROM

    def _causes(self, one: dict[str, Any], width: int) -> list[Content]:
        """The causes of one device as rows, largest first: letter, name, time of the base, share of it."""
        base = (self.base_facts.get("base") or {}).get("ns") or one["window_ns"]
        parts = sorted(_parts(one), key=lambda part: (part[0] == _OTHER, -part[1]))
        most = max((ns for _, ns in parts), default=1) / max(1, one["window_ns"])
        result, name = [], max(len(_label(cause)) for cause, _ in parts) + 1
        for cause, ns in parts:
            share, style = ns / max(1, one["window_ns"]), content_style(ROLES.get(cause, "device"))
            figures = f"{units.duration(share * base):>10} {units.percent(100 * share):>6} "
            bar = cells.bar(share / most, max(4, min(48, width - name - len(figures) - 3)))
            text = f"{_label(cause):<{name}}{figures}"
            result.append(Content.assemble((f"{_letter(cause)} ", style), text, (bar, style)))
        return result

    def answer_frame(self) -> Frame:
        """Legend of the causes in their colours, with their sums."""
        devices = self._devices()
        if self._lists_causes(devices):
            return Frame("Idle", dim("causes of the time without activity"), legend=dim("· busy"))
        order = list(dict.fromkeys(cause for _, one in devices for cause, _ in _parts(one)))
        legend: list[list[Pieces]] = [
            [dim("· busy"), *self._legend(devices, order, long, sums)]
            for long, sums in ((True, True), (False, True), (True, False), (False, False))]
        width = self.drawing.size.width
        return Frame("Idle", dim("causes of the time without activity"), legend=widest(width, *legend))


    def _legend(
        self, devices: list[tuple[str, dict[str, Any]]], order: list[str], long: bool, sums: bool
    ) -> list[Pieces]:
        return [((f"{_letter(cause)} ", ROLES.get(cause, "device")),
                 (f"{_label(cause) if long else cause}{self._sum(devices, cause) if sums else ''}", "dim"))
                for cause in order]

    def _sum(self, devices: list[tuple[str, dict[str, Any]]], cause: str) -> str:
        """Of one device the cause's time in the base: a step, a cycle or the recording."""
        if len(devices) > 1:
            return ""
        one, base = devices[0][1], (self.base_facts.get("base") or {}).get("ns") or devices[0][1]["window_ns"]
        return f" {units.duration(dict(_parts(one)).get(cause, 0) * base / max(1, one['window_ns']))}"


def _letter(cause: str) -> str:
    return CAUSE_LETTERS.get(cause, "O")


def _label(cause: str) -> str:
    return LABELS.get(cause, cause)


def _columns(width: int) -> int:
    """Columns of a gap's lane."""
    return width - _LABEL - (_BESIDE if width > 90 else 0)


def gap_lines(gap: GapPicture, width: int) -> list[Content]:
    """A heading (length, cause, activities before and after), the device lane, and the launching thread's lane if it
    was recorded, its slices labelled and in the colour of their idle cause."""
    from ...analysis.core.names.short_name import fit_name

    row, columns, beside = gap.row, len(gap.busy), width - _LABEL - len(gap.busy) - 2
    where = f"at {units.duration(row['start_ns'])}" if width > 64 else ""  # names matter more than the time
    room = max(8, (width - _LABEL - 14 - len(where) - 6) // 2)
    before, after = (fit_name(str(row[name]), room) if row[name] else "?" for name in ("before", "after"))
    head = f"{before} ─▸ {after}"
    length = units.duration(row["dur_ns"])
    blocks = [cells.bar(0, 1) if share <= 0 else "▁▂▃▄▅▆▇█"[min(7, int(8 * share))] for share in gap.busy]
    inside = max(0, gap.last - gap.first - 1)
    name = f" {length} " if len(length) + 4 < inside else ""
    lane = Content.assemble(
        ("".join(blocks[: gap.first]), content_style("bar")), ("├" + name.center(inside, "─") + "┤", "bold"),
        ("".join(blocks[gap.last + 1 :]), content_style("bar")))
    host: list[tuple[str, str]] = []
    at = 0
    for one in gap.host:
        host.append((" " * (one.first - at), ""))
        size = one.last - one.first + 1
        letter = _letter(one.cause)
        text = f"{letter} " + cells.fit(fit_name(one.name, size - 3), size - 2) if size > 7 else letter * size
        host.append((text, content_style(ROLES.get(one.cause, "device"))))
        at = one.last + 1
    host.append((" " * (columns - at), ""))
    lines = [display(str(row["op"] or ""), max(1, beside)), f"◂ {display(str(row['drained_by']), max(1, beside - 2))}"
             if row["drained_by"] else fit_name(row["frame"] or "", max(1, beside))]
    device = display(str(row["device"] or "device"), _LABEL - 2)
    cause = cells.fit(f"{_letter(row['cause'])} {row['cause']}", 14), content_style(ROLES.get(row["cause"], "device"))
    first = Content.assemble((f"{length:>9} ", "bold"), cause, head)
    result = [Content.assemble(first, " " * max(1, width - first.cell_length - len(where)), (where, QUIET))]
    for label, drawn, text in ((device, lane, lines[0]), ("host", Content.assemble(*host), lines[1])):
        if label == "host" and not gap.host and not text:
            break
        line = Content.assemble((f"{label:>{_LABEL - 1}} ", QUIET), drawn)
        result.append(Content.assemble(line, "  ", (text, QUIET)) if beside > 8 else line)
    return result


def _name(device: dict[str, Any]) -> str:
    rank = "" if device["rank"] is None else f" rank {device['rank']}"
    return f"{display(device['device'] or 'device', 12)}{rank}"


def _parts(device: dict[str, Any]) -> list[tuple[str, int]]:
    """The causes of one device, small ones combined."""
    idle = device["idle_ns"]
    shown = [(cause, ns) for cause, ns in device["causes"].items() if ns >= LEAST * idle]
    rest = idle - sum(ns for _, ns in shown)
    return [*shown, (_OTHER, rest)] if rest > 0 else shown
