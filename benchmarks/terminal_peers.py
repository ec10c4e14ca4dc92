"""Small Textual apps to which the app is compared in ``terminal.py``, each run with ``python -c``.

``STOCK`` is a DataTable with the given number of rows; ``EMPTY`` shows one word; ``BARE`` is a minimal list of five
million rows in Textual: it only renders the visible lines, computed from the row number.
"""

from __future__ import annotations

STOCK = """
import sys
from textual.app import App
from textual.widgets import DataTable
class Stock(App):
    ENABLE_COMMAND_PALETTE = False
    def compose(self):
        yield DataTable(cursor_type="row")
    def on_mount(self):
        table = self.query_one(DataTable)
        table.add_columns("#", "start", "duration", "kernel", "kind", "device", "stream", "tensor", "DRAM")
        table.add_rows((i, f"{i * 5} µs", f"{i % 977}.5 µs", f"kernel_{i % 400}", "kernel", "GPU 0", 7, f"{i % 100}%",
                        f"{i * 7 % 100}%") for i in range(int(sys.argv[1])))
        table.focus()
Stock().run()
"""
EMPTY = """
from textual.app import App
from textual.widgets import Static
class Empty(App):
    def compose(self):
        yield Static("warplens")
Empty().run()
"""
BARE = """
import sys
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.binding import Binding
from textual.geometry import Region
from textual.scroll_view import ScrollView
from textual.strip import Strip
ROWS = int(sys.argv[1])
PLAIN, GREEN, CURSOR = (Style.parse(one) for one in ("#e0e0e0 on #121212", "#9ece6a on #121212", "#121212 on #7aa2f7"))
class Bare(ScrollView, can_focus=True):
    BINDINGS = [Binding("j", "move(1)"), Binding("pagedown", "move(40)")]
    cursor = top = 0
    def action_move(self, by):
        before, self.cursor = self.cursor, min(self.cursor + by, ROWS - 1)
        top = max(self.top, self.cursor - self.size.height + 1)
        if top != self.top:
            self.top = top
            self.refresh()
        else:
            self.refresh(*(Region(0, row - top, self.size.width, 1) for row in (before, self.cursor)))
    def render_line(self, y):
        row, width = self.top + y, self.size.width
        share = row * 7 % 100
        left = f"{row:>8} {row * 5:>12} µs {row % 977:>6}.5 µs  "
        middle = f"kernel_{row % 400}".ljust(width - len(left) - 16)
        right = ("█" * (share // 8)).ljust(16)
        if row == self.cursor:
            return Strip([Segment(left + middle + right, CURSOR)], width)
        return Strip([Segment(left, PLAIN), Segment(middle, PLAIN), Segment(right, GREEN)], width)
class Bottom(App):
    ENABLE_COMMAND_PALETTE = False
    CSS = "Bare { height: 1fr; }"
    def compose(self):
        yield Bare()
Bottom().run()
"""
