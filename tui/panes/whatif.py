"""What-if: the change that saves most, the critical path as a strip, the user's own change, and a list of changes.

``a`` takes changes at a prompt, in the syntax of ``--change``, and Enter on marked rows replays them together; the
resulting cycle time is shown below the answer until ``a`` is given an empty line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textual.content import Content

from ...analysis.core import units
from ...analysis.kernels.family import LETTERS
from ...analysis.views import Entry
from ..list import cells
from ..list.frame import Frame, Pieces, boxed, dim, pieces_of, with_base
from ..session.session import Session
from ..session.themes import content_style
from ..widgets.drawing import QUIET, fitting, joined, with_number, wrapped
from .table import TablePane

LEAST_HEIGHT = 22
"""Lines of the pane from which the critical path is drawn."""
_ROLES = {**{letter: family for family, letter in LETTERS.items()}, "H": "op", "X": "launch", "L": "launch",
          "S": "sync", "D": "device", "U": "faint", "Q": "faint", "C": "sync"}


class WhatIfPane(TablePane):
    """The what-if view with its critical path and prompt."""

    def __init__(self, entry: Entry, session: Session) -> None:
        super().__init__(entry, session)
        self._past: list[str] = []

    @property
    def changes(self) -> tuple[str, ...]:
        """The changes replayed together, as typed."""
        own: tuple[str, ...] = self.own_options.get("changes", ())
        return own

    def _sides(self) -> list[tuple[str, dict[str, Any]]]:
        """Label and facts of each run that could be replayed."""
        facts = self.shown.base.facts if self.shown is not None else {}
        sides = [("", facts)] if "replay" in facts else [("A", facts.get("a") or {}), ("B", facts.get("b") or {})]
        return [(label, one) for label, one in sides if one.get("critical_path")]

    def picture(self, width: int) -> Content:
        """The answer, the critical path, and the change tried."""
        if self.shown is None or self.message:
            return Content("")
        sides, sentences = self._sides(), self.shown.table.summary
        most = sides[0][1].get("most") if len(sides) == 1 else None
        if most is not None:  # the frames below show these lines already
            below = ("Trusted", "Not trusted", "Critical path")
            sentences = tuple(line for line in sentences if not line.startswith(below))
            sentences = sentences["scenario" in sides[0][1] :]
        number, _, unit = _won(most["saved_ns"], sides[0][1]["replay"]).partition(" ") if most else ("", "", "")
        lead = {"number": number, "caption": f"{unit} saved", "judgement": "good"} if most else None

        def drawn(cells: int, most: int) -> list[Content]:
            def draw(lines: Sequence[str]) -> list[Content]:
                return [one for line in lines for one in wrapped(line, cells)]

            return draw(fitting(sentences, draw, most))

        numbered = with_number(lead, drawn, width - 4, 5)
        lines = boxed(numbered, with_base(Frame("What a change would save"), self.base_facts, width), width)
        for label, facts in sides:
            if self.size.height >= LEAST_HEIGHT:
                lines += _path(facts["critical_path"], label, _accuracy(facts["replay"]), width)
            if "scenario" in facts:
                changes = tuple(facts["scenario"]["changes"])
                noted = [note for note in self.shown.base.notes if note.startswith(changes)]
                lines += _tried(facts["scenario"], facts["replay"], label, width, noted)
        return joined(lines)

    def drawn_text(self) -> tuple[str, ...]:
        """Nothing: the exported answer contains the path already."""
        return ()

    def action_try_change(self) -> None:
        """Prompt for changes separated by blanks; an empty line removes them."""
        self.main.ask_for("change", "  ".join(self.changes), "kernel:gemm=0.5  host=0.5  graph   Tab completes", self)

    def completions(self, before: str, after: str) -> tuple[int, tuple[str, ...]]:
        """Complete kinds of changes, then the names known for a kind."""
        from ...analysis.contract.changes import GRAPH, KINDS, plainly, split

        last = (split(before) or ("",))[-1]
        word = "" if before[-1:].isspace() and "=" in last else last
        table, (kind, colon, part) = self.table, word.partition(":")
        if not colon:
            return len(before) - len(word), tuple(
                way for way in (*(f"{one}:" for one in KINDS), GRAPH) if way.startswith(word))
        completes = table is not None and any(column.name == "change" for column in table.columns)
        rows = table.window(0, len(table), ["change"]) if table is not None and completes else []
        ways = (f"{text.rpartition('=')[0]}=" for (text,) in rows if text.startswith(f"{kind}:"))
        return len(before) - len(word), tuple(dict.fromkeys(
            way for way in ways if part.lower() in way.lower() or part.lower() in plainly(way).lower()))

    def history(self) -> list[str]:
        """Changes tried earlier in this session."""
        return self._past

    def prompt_changed(self, kind: str, text: str, final: bool) -> None:
        """Replay changes typed at the prompt."""
        if kind != "change":
            super().prompt_changed(kind, text, final)
        elif final:
            from ...analysis.contract.changes import NotAChange, parse, split

            changes = split(text)
            try:
                for one in changes:
                    parse(one)
            except NotAChange as error:
                self.main.refuse(str(error))
                return
            self.main.close_prompt()
            self.try_changes(changes)

    def try_changes(self, changes: tuple[str, ...]) -> None:
        """Replay the changes together; without any, the run is replayed as recorded."""
        if changes:
            self._past = [*self._past, "  ".join(changes)]
        self.own_options = {"changes": changes}
        self.query_if_stale(force=True)

    def open_details(self, position: int, in_pager: bool = False) -> None:
        """Details of why a row saves what it saves; if rows are marked, replay them together."""
        table = self.rows.table
        if table is None or not self.rows.marks or self.state.arrangement.alternate:
            super().open_details(position, in_pager)
            return
        rows = table.window(0, len(table), ["change"])
        self.try_changes(tuple(row[0] for at, row in enumerate(rows) if table.row_id(at) in self.rows.marks))

    @property
    def command(self) -> str:
        """The command line including the changes tried."""
        import shlex

        return " ".join((super().command, *(shlex.join(("--change", one)) for one in self.changes)))

    def footer_keys(self) -> list[str]:
        """The names of the keys to show in the footer."""
        return [*super().footer_keys(), "try_change"]


def _accuracy(replay: dict[str, Any]) -> Pieces:
    """The replay's error, for the border."""
    error = units.percent(100 * replay["error"], signed=True, places=2)
    mark: Pieces = (("✓ trusted", "good"),) if replay["trusted"] else (("! not trusted", "warn"),)
    return (*dim(f"replay error {error}, limit 2%"), (" ", "base"), *mark)


def _path(facts: dict[str, Any], side: str, accuracy: Pieces, width: int) -> list[Content]:
    """The framed strip of the critical path, one line per host and stream."""
    strip: dict[str, str] = facts["strip"]
    label = min(24, max(map(len, strip), default=0)) + 1
    room = max(10, width - 4 - label)
    lines = []
    for lane, letters in strip.items():
        drawn = [letters[at * len(letters) // room] for at in range(room)]
        runs: list[tuple[str, str]] = [(cells.fit(lane, label), QUIET)]
        runs += [(letter, f"reverse {content_style(_ROLES[letter])}" if letter != " " else "") for letter in drawn]
        lines.append(Content.assemble(*runs))
    middle, end = units.duration(facts["length_ns"] / 2), units.duration(facts["length_ns"])
    scale = (" " * label + "╵0".ljust(room // 2) + f"╵{middle}").ljust(label + room - len(end) - 1) + f"{end}╵"
    lines.append(Content.styled(scale, QUIET))
    legend: tuple[Pieces, ...] = tuple(
        ((letter, _ROLES[letter]), (f" {meaning}", "dim")) for letter, meaning in list(facts["legend"].items())[:6])
    title = f"Critical path{f' of {side}' if side else ''}"
    return boxed(lines, Frame(title, dim("s lists its steps"), accuracy, pieces_of(legend)), width)


def _won(ns: float, replay: dict[str, Any]) -> str:
    """A time rounded to the digits that the replay's error supports."""
    return units.within(ns, ns * max(abs(replay["error"] or 0.0), replay["cross_error"] or 0.0))


def _tried(
    scenario: dict[str, Any], replay: dict[str, Any], side: str, width: int, noted: Sequence[str],
) -> list[Content]:
    """Cycle time before and after the change, rounded to the digits that the replay's error supports; what of it
    matches nothing."""
    before, after, saved = scenario["cycle_ns"], scenario["predicted_ns"], scenario["saved_ns"]
    better, unit = saved > 0, "cycle" if replay["cycles"] else "recording"
    factor = f", {before / after:.2f}× as fast" if better and after > 0 else ""
    change = f"{'✓' if better else '✗'} {_won(abs(saved), replay)} {'less' if saved >= 0 else 'more'}{factor}"
    first = Content.assemble(
        f"{unit} {units.duration(before)} → ", (_won(after, replay), "bold"), "   ",
        (change, content_style("good" if better else "bad"))) if saved else Content(
        f"{unit} {units.duration(before)}   = as long as without")
    room = width - 4
    scale = max(before, after)
    drawn = cells.bar(after / scale, room).rstrip()
    bar = Content.assemble((drawn, content_style("bar")), ("░" * (round(before / scale * room) - len(drawn)), QUIET))
    title = f"Your change{f' in {side}' if side else ''}"
    nothing = [line for note in noted for line in wrapped(f"! {note}", room)]
    frame = Frame(title, dim("  ".join(scenario["changes"])), right=dim("a changes it"))
    return boxed([first, *nothing, bar], frame, width)
