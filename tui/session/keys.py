"""Every key of the app in one list: its action, its text in the footer and the help, and its name in the settings.

Bindings, footer, help, palette and the ``[keys]`` table of the settings all read this list: each key is defined once.
A key's ``place`` is the widget whose ``action_<action>`` method handles it: the screen for app-wide keys, the pane for
keys that act on the current view, the list for keys that act on its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct
from textual.binding import Binding, BindingType

from ...analysis.views import VIEWS

Place = Literal["screen", "pane", "list", "timeline", "flame", "prompt"]


class Key(Struct, frozen=True):
    """One action bound to one or more keys.

    ``name`` is its name in the settings, ``keys`` are in Textual's spelling, ``label`` is the footer's word and
    ``help`` the sentence in the help. ``rank`` orders the footer: lowest first, None never shown.
    """

    name: str
    keys: str
    action: str
    label: str
    help: str
    place: Place = "pane"
    rank: int | None = None

    @property
    def id(self) -> str:
        """The id of its binding."""
        if self.place == "list":
            return _IN_LIST.get(self.name, f"list.{self.name}")
        return f"{self.place}.{self.name}" if self.place in ("timeline", "flame") else self.name


_IN_LIST = {"details": "list.open"}


KEYS: tuple[Key, ...] = (
    Key("details", "enter", "open", "open", "All details of this row", "list", rank=1),
    Key("side_panel", "D", "side_panel", "panel", "Show or hide the side panel with details, where there is room"),
    Key("search", "slash", "search", "search", "Search as you type; Enter keeps the search, Esc drops it", rank=2),
    Key("next_match", "n", "search_next(1)", "", "Next row that matches the search", "list"),
    Key("previous_match", "N", "search_next(-1)", "", "Previous row that matches the search", "list"),
    Key("filter", "f", "filter", "filter", "Only rows that match: text, total>1ms, name~gemm, share>5%, !copy", rank=3),
    Key("invert", "exclamation_mark", "invert", "invert", "Invert the filter"),
    Key("sort_left", "less_than_sign", "sort_next(-1)", "sort", "Sort by the column to the left", "list"),
    Key("sort_right", "greater_than_sign", "sort_next(1)", "sort", "Sort by the column to the right", "list"),
    Key("reverse", "r", "reverse", "reverse", "Sort by this column, or reverse the order", "list"),
    Key("order", "s", "order", "order", "Switch the order (cycles: by number or by time; diff: by verdict or by "
        "suspicion; ops and CPU stacks: list, tree or flame graph; what-if: changes or critical path; history: series "
        "or runs)", rank=4),
    Key("try_change", "a", "try_change", "try", "What-if: type a change to see the predicted cycle; Enter on marked "
        "rows replays them together", rank=5),
    Key("unfold", "plus", "fold(1)", "unfold", "Open this tree row", rank=5),
    Key("fold", "minus", "fold(-1)", "fold", "Close this tree row, or its parent"),
    Key("columns", "number_sign", "columns", "columns", "Show, hide and widen columns; remembered for this view"),
    Key("undo", "u", "undo", "undo", "Undo the last filter, order or scope"),
    Key("mark", "space", "mark", "mark", "Mark this row; the mark stays with the row", "list"),
    Key("note", "i", "note", "note", "Write a note on this row, or on a time in the timeline; e on the overview "
        "exports all notes"),
    Key("scope", "c", "scope", "scope", "Restrict every view to the cycle under the cursor", rank=7),
    Key("unscope", "C", "unscope", "all cycles", "Show all cycles again and drop marked ranges"),
    Key("cycle_previous", "left_square_bracket", "step_cycle(-1)", "cycle", "Previous cycle"),
    Key("cycle_next", "right_square_bracket", "step_cycle(1)", "cycle", "Next cycle"),
    Key("other_run", "x", "other_run", "A/B", "Switch between both runs, A and B", rank=8),
    Key("per", "percent_sign", "per", "per cycle", "Compare totals of two runs per cycle or per recording", rank=6),
    Key("place", "t", "place", "timeline", "Show this row in the timeline; Backspace returns", rank=9),
    Key("export", "e", "export", "export", "Write this view to a markdown file in the current folder", rank=10),
    Key("export_as", "E", "export_as", "export as", "Export to a file you name; its ending chooses the format"),
    Key("copy", "y", "copy", "copy", "Copy this view as markdown"),
    Key("copy_command", "Y", "copy_command", "copy command", "Copy the command line that prints this view"),
    Key("copy_name", "ctrl+y", "copy_name", "copy name", "Copy the whole name in this row"),
    Key("pager", "vertical_line", "pager", "pager", "Show the details of this row in $PAGER"),
    Key("editor", "ctrl+e", "edit", "editor", "At the SQL and note prompts: write in $EDITOR (End goes to the end of "
        "the line)", "prompt"),
    Key("maximise", "z", "maximise", "zoom", "Maximise the list, or restore it", "screen"),
    Key("back", "backspace", "back", "back", "Go back to the previous view", "screen"),
    Key("escape", "escape", "escape", "clear", "Close an overlay, else clear the search, else the filter",
        "screen"),
    Key("pane_next", "tab", "focus_pane(1)", "pane", "Focus the next part of the view", "screen"),
    Key("pane_previous", "shift+tab", "focus_pane(-1)", "pane", "Focus the previous part of the view", "screen"),
    Key("warnings", "w", "warnings", "warnings", "The whole answer of the view, problems in the input, and "
        "notes", "screen"),
    Key("open_trace", "o", "open", "open", "Open another recording; up to eight stay open", "screen"),
    Key("recordings", "O", "recordings", "recordings", "List the open recordings: Enter shows one alone, a and b make "
        "it A or B, x closes it", "screen"),
    Key("record", "R", "record", "record", "Record the job again, in the app of warplens record --open", "screen"),
    Key("palette", "colon", "palette", "all", "List every command; themes are here", "screen", rank=14),
    Key("more", "full_stop,horizontal_ellipsis", "more", "more views",
        "Choose among the views that have no tab in sight", "screen"),
    Key("help", "question_mark", "help", "help", "Explain the keys and columns of this view", "screen"),
    Key("stop", "ctrl+c", "stop", "stop", "Cancel the running query or task", "screen"),
    Key("suspend", "ctrl+z", "suspend", "suspend", "Suspend to the shell; fg returns", "screen"),
    Key("quit", "q", "quit_or_close", "quit", "Close an overlay, else quit", "screen", rank=16),
    Key("down", "down,j", "move(1)", "", "Next row", "list"),
    Key("up", "up,k", "move(-1)", "", "Previous row", "list"),
    Key("page_down", "pagedown", "page(1)", "", "Page down", "list"),
    Key("page_up", "pageup", "page(-1)", "", "Page up", "list"),
    Key("half_down", "ctrl+d", "page(0.5)", "", "Half a page down", "list"),
    Key("half_up", "ctrl+u", "page(-0.5)", "", "Half a page up", "list"),
    Key("first", "home,g", "end(-1)", "", "First row", "list"),
    Key("last", "end,G", "end(1)", "", "Last row", "list"),
    Key("left", "left,h", "column(-1)", "", "Column to the left", "list"),
    Key("right", "right,l", "column(1)", "", "Column to the right", "list"),
    Key("into", "enter", "into", "zoom to", "Flame graph: zoom to this box", "flame", rank=1),
    Key("flame_whole", "equals_sign", "whole", "all", "Flame graph: show all of it", "flame", rank=2),
    Key("beside_left", "left,h", "beside(-1)", "", "Flame graph: box to the left", "flame"),
    Key("beside_right", "right,l", "beside(1)", "", "Flame graph: box to the right", "flame"),
    Key("above", "up,k", "deeper(-1)", "", "Flame graph: the box above", "flame"),
    Key("below", "down,j", "deeper(1)", "", "Flame graph: the widest box below", "flame"),
    Key("flame_by", "r", "weigh", "device/idle", "Flame graph: by device time, or by the idle time before launches",
        "flame", rank=3),
    Key("zoom_in", "plus", "zoom(-1)", "closer", "Timeline: zoom in at the cursor", "timeline", rank=5),
    Key("zoom_out", "minus", "zoom(1)", "wider", "Timeline: zoom out at the cursor", "timeline", rank=5),
    Key("fit", "equals_sign", "fit", "all", "Timeline: show the whole run", "timeline", rank=5),
    Key("zoom_to", "enter", "open", "zoom to", "Timeline: zoom to the slice or gap under the cursor", "timeline",
        rank=1),
    Key("fold_lanes", "space", "fold", "fold", "Timeline: open or close the streams or the thread under the cursor",
        "timeline", rank=5),
    Key("goto", "g", "goto", "go to", "Timeline: go to a time (12.5ms) or a launch (#1204)", "timeline", rank=5),
    Key("same_next", "n", "same(1)", "same", "Timeline: next slice of the same name in this lane", "timeline", rank=5),
    Key("arrow", "a", "arrow", "launch", "Timeline: jump from a kernel to its launch call, or from a call to its "
        "kernel", "timeline", rank=5),
    Key("critical_path", "s", "critical_path", "path",
        "Timeline: show or hide the critical path of the cycle of median length", "timeline", rank=5),
    Key("range", "c", "range", "range", "Timeline: mark the start, then the end of a range; with one in each run the "
        "diff opens; c again drops it", "timeline", rank=5),
    Key("same_previous", "N", "same(-1)", "", "Timeline: previous slice of the same name", "timeline"),
    Key("earlier", "left", "pan(-1)", "", "Timeline: scroll to earlier", "timeline"),
    Key("later", "right", "pan(1)", "", "Timeline: scroll to later", "timeline"),
    Key("column_left", "h", "step(-1)", "", "Timeline: cursor one column to the left", "timeline"),
    Key("column_right", "l", "step(1)", "", "Timeline: cursor one column to the right", "timeline"),
    Key("lane_up", "up,k", "lane(-1)", "", "Timeline: lane above", "timeline"),
    Key("lane_down", "down,j", "lane(1)", "", "Timeline: lane below", "timeline"),
    Key("lanes_up", "pageup", "page(-1)", "", "Timeline: a screenful of lanes up", "timeline"),
    Key("lanes_down", "pagedown", "page(1)", "", "Timeline: a screenful of lanes down", "timeline"),
    Key("beginning", "home", "end(-1)", "", "Timeline: beginning of the run", "timeline"),
    Key("ending", "end,G", "end(1)", "", "Timeline: end of the run", "timeline"),
)

NAMES: frozenset[str] = frozenset(key.name for key in KEYS)


def bindings(place: Place) -> list[BindingType]:
    """Textual bindings of one place; ``Binding.id`` is ``Key.id``."""
    return [
        Binding(key.keys, key.action, key.label or key.help, show=key.rank is not None, id=key.id)
        for key in KEYS if key.place == place
    ]


def view_bindings() -> list[BindingType]:
    """A binding for each view that has a key, handled by ``action_view``."""
    return [
        Binding(entry.key, f"view('{entry.name}')", entry.title, show=False, id=f"view_{entry.name}")
        for entry in VIEWS if entry.key
    ]


_SPELLED = {
    "slash": "/", "vertical_line": "|", "full_stop": ".", "horizontal_ellipsis": "…", "exclamation_mark": "!",
    "less_than_sign": "<", "greater_than_sign": ">", "colon": ":",
    "question_mark": "?", "plus": "+", "minus": "-", "equals_sign": "=", "percent_sign": "%", "number_sign": "#",
    "left_square_bracket": "[", "right_square_bracket": "]", "enter": "Enter", "space": "Space",
    "escape": "Esc", "backspace": "Backspace", "tab": "Tab", "shift+tab": "S-Tab", "pagedown": "PgDn",
    "pageup": "PgUp", "up": "↑", "down": "↓", "left": "←", "right": "→", "home": "Home", "end": "End",
}


def spelled(keys: str, every: bool = False) -> str:
    """Keys as displayed, ``^C`` for ``ctrl+c``: the first of several, or all of them."""
    seen = [_spell(key) for key in keys.split(",")]
    return " ".join(seen) if every else seen[0]


def _spell(key: str) -> str:
    if key.startswith("ctrl+"):
        return "^" + key[5:].upper()
    return _SPELLED.get(key, key)


def remapped(settings: Mapping[str, str]) -> dict[str, str]:
    """Key name → keys in effect: the defaults overridden by the user's settings."""
    return {key.name: settings.get(key.name, key.keys) for key in KEYS}


def footer(wanted: Iterable[str] | None = None) -> list[Key]:
    """The keys for the footer in order of rank; ``wanted`` limits them to those names."""
    names = None if wanted is None else set(wanted)
    shown = [key for key in KEYS if key.rank is not None and (names is None or key.name in names)]
    return sorted(shown, key=lambda key: key.rank or 0)  # a stable sort: equal ranks keep the order of KEYS


_STAYS = ("details", "zoom_to", "palette", "quit")
_FIRST_TO_GO = ("place", "other_run", "scope", "export")


def gives_way(key: Key) -> int:
    """Priority for dropping a key from a footer that is too narrow: highest first; 0: never dropped."""
    if key.name in _STAYS:
        return 0
    return 100 + _FIRST_TO_GO.index(key.name) if key.name in _FIRST_TO_GO else key.rank or 0


def unknown_key(key: str) -> bool:
    """Whether no terminal sends a key with that name."""
    from textual.keys import KEY_NAME_REPLACEMENTS, Keys

    if len(key) == 1:
        return not key.isprintable()
    names = {str(one.value) for one in Keys} | set(KEY_NAME_REPLACEMENTS.values())
    base = key.removeprefix("ctrl+").removeprefix("shift+").removeprefix("alt+")
    return key not in names and base not in names and not (len(base) == 1 and base.isprintable())
