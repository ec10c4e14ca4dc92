"""Diff: the verdict in a few lines, then the ranked functions; asks for a second trace where there is only one."""

from __future__ import annotations

from msgspec.structs import replace

from .table import TablePane


class DiffPane(TablePane):
    """The diff of two runs."""

    def wake(self, force: bool = False) -> None:
        """Ask, once there are two runs."""
        session = self.session
        if len(session.traces) == 1 and not session.partial:
            self.shown = None
            self.rows.show(None)
            self.say("A diff takes two runs. Press o, mark this one and the one to compare it with, and Enter.")
            self.tell()
        elif len(session.traces) == 1:
            self.say("One of the two runs is here; the diff begins when the other one is. Views 1 to 5 work meanwhile.")
            self.tell()
        else:
            super().wake(force)

    def action_fold(self, step: int) -> None:
        """Open the row under the cursor into its parts, or close it; of a part, the row that it belongs to."""
        from ...analysis.table.parts import opened, row_of

        table = self.rows.table
        if self.shown is None or table is None or not len(table):
            self.app.bell()
            return
        row = table.row_id(self.rows.cursor)
        base = opened(self.shown.base, row, step > 0)
        if base is None and step < 0 and (above := row_of(self.shown.base, row)) is not None:
            base = opened(self.shown.base, above, False)
        if base is None:
            self.app.bell()
            return
        self.shown = replace(self.shown, base=base)
        self.rearrange()

    def wanted(self) -> list[str]:
        """The names of the keys that matter now, for the footer."""
        opens = self.table is not None and self.table.kept is not None
        return [*super().wanted(), *(["fold", "unfold"] if opens else [])]
