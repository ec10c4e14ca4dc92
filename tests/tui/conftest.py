"""Makes the tests of the screens quick: no wait without work, no unseen picture, no style sheet parsed twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual import app, pilot
from textual._compositor import Compositor
from textual.cache import LRUCache
from textual.css.stylesheet import Stylesheet

from warplens.tui.panes import side_panel as panel
from warplens.tui.panes.timeline import pane as timeline

replaced = pytest.MonkeyPatch()  # for all tests of the process
for module in (panel, timeline):
    replaced.setattr(module, "REST", 0.0)  # no finger holds a key down: the cursor rests at once


async def _until_nothing_is_due(min_sleep: float = 0, max_sleep: float = 1) -> None:
    """Until the loop has nothing more to run: known at once, where the pilot's own wait watches the process's clock."""
    loop: Any = asyncio.get_running_loop()
    idle = 0
    while idle < 2:  # the first turn takes up what came in from threads and timers that were due
        await asyncio.sleep(0)
        idle = 0 if loop._ready else idle + 1


async def _screen_has_settled(self: pilot.Pilot[Any], timeout: float = 30.0) -> bool:
    """The same, without a message to every widget: where the loop has nothing to run, no widget has a message left."""
    await _until_nothing_is_due()
    return True


for module in (app, pilot):
    replaced.setattr(module, "wait_for_idle", _until_nothing_is_due)
replaced.setattr(pilot.Pilot, "_wait_for_screen", _screen_has_settled)

_painted = Compositor.render_update


def _on_request(self: Compositor, full: bool = False, screen_stack: Any = None, simplify: bool = False) -> Any:
    """A screen nobody looks at is painted when a test has settled or asks for it, not for every step on the way."""
    if full:
        return _painted(self, full, screen_stack, simplify)
    self._dirty_regions.clear()
    return None


replaced.setattr(Compositor, "render_update", _on_request)

_made, _coloured = Stylesheet.__init__, Stylesheet.set_variables
_parsed: dict[tuple[tuple[str, str], ...], LRUCache[Any, Any]] = {}


def _share(self: Stylesheet) -> None:
    """Style sheets in the same colours are parsed once, not for each app."""
    self._parse_cache = _parsed.setdefault(tuple(sorted(self._variables.items())), LRUCache(1000))


def _make(self: Stylesheet, *, variables: dict[str, str] | None = None) -> None:
    _made(self, variables=variables)
    _share(self)


def _colour(self: Stylesheet, variables: dict[str, str]) -> None:
    self._parse_cache = LRUCache(64)  # which is emptied
    _coloured(self, variables)
    _share(self)


replaced.setattr(Stylesheet, "__init__", _make)
replaced.setattr(Stylesheet, "set_variables", _colour)
