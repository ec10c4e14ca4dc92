"""The pane of any view: what its keys do with the rows of the answer: search, filter, scope, details, export, copy.

Panes with a picture derive from it and draw above or beside the list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace
from textual.binding import BindingType

from ...analysis.core.text import display
from ...analysis.views import VIEWS, lacking
from ..list.table_list import TableList
from ..session import resume
from ..session.command_line import command_line
from ..session.exporting import exported, file_name
from ..session.keys import Key, bindings
from ..session.messages import CopyRequest, CycleStepped, ScopeChanged, TaskRequest, TextCopied, ViewRequest
from ..session.session import Choice
from .answered import AnsweredPane

if TYPE_CHECKING:
    from ...analysis.table.table import Table


TIMELINE = next(entry for entry in VIEWS if entry.name == "timeline")
MOST_NOTE = 500
"""Characters of a note that are saved; longer ones are cut."""


class TablePane(AnsweredPane, can_focus=False):
    """One view of the open runs, and the actions on its rows."""

    DEFAULT_CSS = """
    TablePane { height: 1fr; width: 1fr; }
    TablePane TableList { height: 1fr; width: 1fr; }
    TablePane .message { height: auto; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings("pane")
    is_picture = False
    """Whether a picture of named boxes is in place of the rows: / goes to a name in it, nothing is filtered."""
    _sought = ""

    def find_name(self, text: str) -> None:
        """Go to the next box whose name contains the text."""

    def action_search(self) -> None:
        """Open the search prompt."""
        self.main.ask_for("search", "", "next name that contains this; Enter alone: one more" if self.is_picture
                          else "text in any column")

    def action_filter(self) -> None:
        """Open the filter prompt with the current filter."""
        if self.is_picture:
            self.hint("Only lists are filtered; / goes to a name here.")
            return
        self.main.ask_for("filter", self.state.arrangement.filter, "gemm   total>1ms   share>5%   name~^void   !copy")

    def action_columns(self) -> None:
        """Choose the columns of the list."""
        from ..overlays.columns import ColumnsScreen

        if self.rows.table is None or self.shown is None:
            self.app.bell()
            return
        view = self.shown.view.name

        def choose(choices: dict[str, Choice]) -> None:
            self.session.columns[view] = choices
            self.rows.choose(choices)
            resume.keep_columns(view, choices)

        offered = [one for one in self.rows.table.columns if one.per in ("", self.rows.table.per)]
        self.app.push_screen(
            ColumnsScreen(offered, lambda: self.rows.in_sight, self.session.columns.get(view, {}), choose))

    def action_fold(self, step: int) -> None:
        """Open or close a row of a tree; overridden where rows have groups."""
        self.hint("This list has no groups; + and - open and close those of the diff and of the ops tree.")

    def action_try_change(self) -> None:
        """Try a change; overridden by the what-if view, the only one that replays changes."""
        self.hint("a tries a change in the what-if view; b opens it.")

    def leave(self) -> bool:
        """Esc: cancel the pane's own mode; False if there is none."""
        return False

    def action_note(self) -> None:
        """Open the prompt with the note on the row under the cursor."""
        if self.rows.table is None or not len(self.rows.table):
            self.app.bell()
            return
        self.main.ask_for("note", self.state.notes.get(self.rows.table.row_id(self.rows.cursor), ""),
                          "what to remember of this row")

    def _note(self, text: str) -> None:
        """Save the note on the row under the cursor and mark the row; '' removes the note."""
        if self.rows.table is None or not len(self.rows.table):
            return
        row = self.rows.table.row_id(self.rows.cursor)
        self.state.notes.pop(row, None)
        if text:
            self.state.notes[row] = text
            self.rows.add_mark(row)
            self.remember_marks()

    def remember_marks(self) -> bool:
        """Save the marks and the text of newly marked rows, which are at most one row from the cursor; whether their
        number changed."""
        table, state = self.rows.table, self.state
        changed = len(self.rows.marks) != len(state.marks)
        state.marks = set(self.rows.marks)
        for marks in (state.notes, state.words):
            for gone in marks.keys() - state.marks:
                del marks[gone]
        if table is None or state.marks <= state.words.keys():
            return changed
        for position in range(max(0, self.rows.cursor - 1), min(len(table), self.rows.cursor + 2)):
            row = table.row_id(position)
            if row in state.marks and row not in state.words:
                from ...analysis.table.table import row_words

                state.words[row] = row_words(table.columns, table.window(position, position + 1)[0])
        return changed

    def action_export_as(self) -> None:
        """Prompt for a file name; its suffix selects the format. The prompt opens also before the rows are there, or
        the name would be obeyed as keys."""
        if self.exported is not None:
            self.main.ask_for("export", file_name(self.entry.name, self.exported, ".md"))
        elif self.awaits_rows:
            self.main.ask_for("export", f"warplens-{self.entry.name}.md")

    def prompt_changed(self, kind: str, text: str, final: bool) -> None:
        """Prompt input for this view; ``final`` on Enter."""
        if kind == "search" and self.is_picture:
            if final and (text or self._sought):
                self._sought = text or self._sought
                self.find_name(self._sought)
        elif kind == "search":
            self.search(text)
            if final:
                self.main.close_prompt()
        elif kind == "filter" and final:
            self.apply_arrangement(replace(self.state.arrangement, filter=text.strip()), keep_bad=False)
        elif kind == "note" and final:
            self._note(text.strip()[:MOST_NOTE])
            self.main.close_prompt()
            self.report_change()
        elif kind == "export" and final:
            self.main.close_prompt()
            self._export(text.strip())

    def prompt_cancelled(self, kind: str) -> None:
        """The prompt was cancelled."""
        if kind == "search":
            self.search("")

    def view_key_repeated(self) -> None:
        """The key of this view was pressed while it is open."""

    def opened_by_key(self) -> None:
        """The view was opened by its key, or by its name in the palette."""

    def row(self) -> dict[str, Any]:
        """The row under the cursor, by column name; empty if there is none."""
        values = self.rows.row(self.rows.cursor)
        if values is None or self.rows.table is None:
            return {}
        return {column.name: value for column, value in zip(self.rows.table.columns, values, strict=True)}

    def action_place(self) -> None:
        """Show the row under the cursor in the timeline."""
        row = self.row()
        if not row:
            self.app.bell()
            return
        run = 1 if self.subject == "B" and len(self.session.traces) > 1 else 0
        self.session.place = run, row
        self.app.post_message(ViewRequest("timeline"))

    def action_scope(self) -> None:
        """Limit every view to the cycle under the cursor, and for a job to the rank in that row."""
        row = self.row()
        a, b = row.get("cycle_a", row.get("cycle")), row.get("cycle_b")
        ranks = row.get("rank_a", row.get("rank")), row.get("rank_b")
        if "cycle" in row and self.subject == "B" and len(self.session.traces) > 1:
            a, b, ranks = None, row["cycle"], (None, row.get("rank"))
        if a is None and b is None:
            self.hint("This row belongs to no cycle; choose a cycle in view 2.")
            return
        self.session.scope(a, b, *ranks)
        self.session.undo_stack.append("")
        self.app.post_message(ScopeChanged())

    def action_unscope(self) -> None:
        """Show all cycles again."""
        if (self.session.cycle, self.session.cycle_b, self.session.ranges) != (None, None, (None, None)):
            self.session.scope(None, None)
            self.session.undo_stack.append("")
            self.app.post_message(ScopeChanged())

    def action_step_cycle(self, step: int) -> None:
        """Scope to the previous or next cycle in each run."""
        self.app.post_message(CycleStepped(step))

    def on_table_list_opened(self, event: TableList.Opened) -> None:
        """Enter on a row: show its details."""
        event.stop()
        if self.rows.table is not None or not self.later(self.rows.action_open):
            self.open_details(event.position)

    def open_details(self, position: int, in_pager: bool = False) -> None:
        """Show the details of the row at that position in the list."""
        if self.rows.table is None or self.shown is None:
            return
        from ..overlays.details import DetailsScreen

        runs, options = self.session.question(self.shown.view, self.subject)  # those the rows on screen came from
        self.app.push_screen(
            DetailsScreen(self.entry, self.shown.view, self.rows.table, position, runs, options, in_pager))

    def export_job(self) -> Callable[[], Table] | None:
        """A job that returns the table to export, for a thread; None where there is nothing to export."""
        table = self.exported
        if table is None:
            return None
        drawn = self.drawn_text()
        picture = {"picture": (drawn,), "rows_below": True} if drawn and not table.picture else {}
        asked = replace(table, command=self.command, **picture)
        return lambda: asked

    def action_export(self) -> None:
        """Write this view as markdown under an unused file name."""
        self._export(None)

    def _export(self, name: str | None) -> None:
        if not self.later(lambda: self._export(name)):
            self.write_out(self.export_job(), self.entry.name, name)

    def write_out(self, job: Callable[[], Table] | None, view: str, name: str | None) -> None:
        """Write the table the job returns to a file in the background, and report where."""
        if job is not None:
            self.app.post_message(TaskRequest("writing", lambda: exported(job(), view, name), self.report_written))

    def report_written(self, value: Any) -> None:
        """Report the written file, or why writing failed."""
        if isinstance(value, Exception):
            text = str(value)
            if isinstance(value, OSError) and value.strerror:
                text = f"{value.filename or 'output'}: {value.strerror}"
            self.notify(display(text, 300), severity="error", markup=False)
        else:
            self.notify(f"Written to {display(str(value), 300)}", markup=False)

    @property
    def command(self) -> str:
        """The command line that prints this view."""
        return command_line(self.session, self.entry.name, self.state, self.exported, self.subject)

    def action_copy_command(self) -> None:
        """Copy the command line that prints this view."""
        if not self.later(self.action_copy_command):
            self.app.post_message(TextCopied(self.command))

    def action_copy(self) -> None:
        """Copy this view as markdown."""
        if self.later(self.action_copy):
            return
        job = self.export_job()
        if job is not None:
            self.app.post_message(CopyRequest(job, self.entry.name))

    def action_copy_name(self) -> None:
        """Copy the whole name in the row under the cursor: its name, else the first of its texts."""
        row, table = self.row(), self.rows.table
        named = [one.name for one in table.columns if one.role == "name"] if table is not None else []
        texts = [row[name] for name in [*named, *row] if isinstance(row.get(name), str) and row[name]]
        if texts:
            self.app.post_message(TextCopied(texts[0]))
        else:
            self.app.bell()

    def action_pager(self) -> None:
        """Show the details of the row under the cursor in the pager."""
        if self.row():
            self.open_details(self.rows.cursor, in_pager=True)
        elif not self.later(self.action_pager):
            self.app.bell()

    def footer_keys(self) -> list[str]:
        """The names of the keys to show in the footer."""
        names, table = ["palette", "quit"], self.table
        if self.shown is not None and len(self.shown.base):
            names += "details search filter columns undo".split()
            names += ["place"] if self.places_rows() else []
        if self.exported is not None:
            names += ["export", "copy_command"]
        if self.shown is not None and len(self.session.subjects(self.shown.view)) > 1:
            names.append("other_run")
        if self.has_other_order():
            names.append("order")
        if table is not None and table.per is not None and table.has_both_bases:
            names.append("per")
        if table is not None and {"cycle", "cycle_a"} & {column.name for column in table.columns}:
            names.append("scope")
        return names

    def places_rows(self) -> bool:
        """Whether its rows can be found in the timeline."""
        named = {"start_ns", "name", "function"} & {column.name for column in self.table.columns} if self.table else ()
        return bool(named) and not lacking(TIMELINE, self.session.traces)

    def action_side_panel(self) -> None:
        """Toggle the side panel."""
        self.session.details = not self.session.details
        self.make_room()
        if self.session.details and not self.side_panel.shown:
            self.hint("No room for the side panel; Enter opens the details.")

    def on_table_list_highlighted(self, event: TableList.Highlighted) -> None:
        """Save the cursor position and the marks."""
        event.stop()
        self.state.cursor = event.position
        self.follow_cursor()
        if not self.session.partial and self.remember_marks():
            self.report_change()

    def on_table_list_rearranged(self, event: TableList.Rearranged) -> None:
        """The user sorted in the list: save that as the arrangement."""
        event.stop()
        if self.shown is not None:
            self.shown = replace(self.shown, table=event.table)
        self.state.change(
            replace(self.state.arrangement, sort=event.table.sorted_by, descending=event.table.descending)
        )
        self.session.undo_stack.append(self.entry.name)
        self.post_message(self.Changed())

    def change(self, **fields: Any) -> None:
        """Change fields of the arrangement and apply it."""
        self.apply_arrangement(replace(self.state.arrangement, **fields))

    def action_invert(self) -> None:
        """Swap the rows the filter shows and hides."""
        if self.state.arrangement.filter:
            self.change(invert=not self.state.arrangement.invert)
        else:
            self.hint("No filter to invert; f sets one.")

    def action_undo(self) -> None:
        """Undo the last change of this view's filter or sort, or of the scope of all views."""
        undo_stack, scopes = self.session.undo_stack, self.session.scopes
        last = undo_stack.pop() if undo_stack and undo_stack[-1] in ("", self.entry.name) else self.entry.name
        if not last and scopes:
            before = scopes[-1]
            self.session.scope(*before)
            del scopes[-2:]
            self.post_message(ScopeChanged())
        elif self.state.undo():
            self.rearrange()
        else:
            self.hint("Nothing to undo here: u takes back filters, orders and scopes.")

    def action_order(self) -> None:
        """Switch to the view's other order."""
        if not self.has_other_order() and not (self.shown is None and self.runner.busy):
            self.hint("This view has only one order; < and > sort by column.")
            return
        self.change(sort=None, alternate=not self.state.arrangement.alternate)

    def action_per(self) -> None:
        """Switch the comparison of two runs between per recording and per cycle."""
        table = self.table
        if table is None or table.per is None:
            self.hint("This view has no per-cycle comparison.")
        elif not table.has_both_bases:
            why = next((note for note in table.notes if note.startswith("Whole recordings")), None)
            self.hint(why or f"This view compares per {table.per} only.")
        else:
            self.session.per = "recording" if self.session.per == "cycle" else "cycle"
            self.session.epoch += 1
            self.query_if_stale()

    def has_other_order(self) -> bool:
        """Whether the view has another order or shape for these runs."""
        if self.shown is None:  # the other shape may have failed
            return self.state.arrangement.alternate
        return (self.shown.view.other_order(self.shown.base.columns) or self.queried_view().other) is not None

    def action_other_run(self) -> None:
        """Cycle through both runs, A, B as far as this view can; every view that can then shows the same."""
        subjects = self.session.subjects(self.view or self.queried_view())
        if len(subjects) < 2:
            self.hint("This view compares A with B; open the runs in the other order to swap them."
                      if len(self.session.traces) > 1 else "Only one run is open; o opens another.")
            return
        at = subjects.index(self.session.subject) if self.session.subject in subjects else 0
        self.session.subject = subjects[(at + 1) % len(subjects)]
        self.session.epoch += 1
        self.query_if_stale()

    def key_label(self, key: Key) -> str:
        """The footer's word for a key in this view."""
        return key.label
