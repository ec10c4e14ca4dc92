"""Kernels: device time by kernel family, as one bar per run, above the list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from ...analysis.core import units
from ...analysis.kernels.family import BRIEF, LETTERS, TITLES
from ..list.frame import Frame, Pieces, dim, widest
from ..session.keys import Key
from ..widgets.drawing import A, B, stacked, stacked_text
from .table import TablePane

if TYPE_CHECKING:
    from ...analysis.contract.view import View

LEAST_HEIGHT = 14
"""Lines of the pane from which the bar is drawn."""


class KernelsPane(TablePane):
    """The kernels view with its families."""

    def queried_view(self) -> View:
        """With several devices one row per kernel, summed over them; ``s`` splits it by device."""
        from ...analysis.views.kernels import in_overview

        return in_overview(self.session.traces)

    def has_other_order(self) -> bool:
        """Whether several devices or ranks were recorded."""
        rows = self.shown.base.rows if self.shown is not None else None
        ran = rows.column("devices").drop_nulls().to_list() if rows is not None and "devices" in rows.schema else []
        return self.state.arrangement.alternate or max(ran, default=0) > 1 or any(
            max(len(run.info.ranks), len(run.info.devices)) > 1 for run in self.session.traces)

    def key_label(self, key: Key) -> str:
        """``s`` is labelled by what it lists next."""
        by = "by kernel" if self.state.arrangement.alternate else "by device"
        return by if key.name == "order" else super().key_label(key)

    def _families(self) -> list[dict[str, int]]:
        facts = self.shown.base.facts if self.shown is not None else {}
        sides = [facts] if "families" in facts else [facts.get("a") or {}, facts.get("b") or {}]
        return [side["families"] for side in sides if side.get("families")]

    def evidence(self, width: int) -> list[Content]:
        """One bar per run."""
        sides = self._families()
        if not sides or self.size.height < LEAST_HEIGHT:
            return []
        result: list[Content] = []
        for side, style in zip(sides, (A, B), strict=False):
            letter = (f"{'AB'[len(result)]} ", style) if len(sides) > 1 else ("", "")
            parts = [(TITLES[one], one, float(ns)) for one, ns in side.items()]
            result.append(Content.assemble(letter, stacked(parts, width - len(letter[0]))))
        return result

    def drawn_text(self) -> tuple[str, ...]:
        """The families and their shares, for an export."""
        sides = self._families()
        return tuple(
            f"{'AB'[at] + '  ' if len(sides) > 1 else ''}"
            f"{stacked_text([(TITLES[one], one, float(ns)) for one, ns in side.items()])}"
            for at, side in enumerate(sides))

    def answer_frame(self) -> Frame:
        """Legend of the families, each with its letter and colour."""
        sides = self._families()
        most = {one: max(side.get(one, 0) for side in sides) for side in sides for one in side}
        order = sorted(most, key=lambda one: -most[one])
        legend: list[list[Pieces]] = [
            [((LETTERS[one], one), (f" {names.get(one, TITLES[one])}", "dim")) for one in order]
            for names in ({}, BRIEF)]
        rows = self.shown.table.total_rows if self.shown is not None else 0
        note = dim("GPU time by family" if sides else "")
        return Frame(units.counted(rows, "kernel", "kernels"), note, legend=widest(self.drawing.size.width, *legend))
