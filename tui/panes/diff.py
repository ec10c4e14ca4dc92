"""Diff: the verdict in a few lines, then the ranked functions; asks for a second trace where there is only one."""

from __future__ import annotations

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
