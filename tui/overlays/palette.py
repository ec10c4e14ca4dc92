"""``:``: every command by name. Views, themes and export formats come from their registries, keys from theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from ...analysis.views import VIEWS
from ..app.keys import KEYS

if TYPE_CHECKING:
    from ..app.app import WarplensApp


class Commands(Provider):
    """The commands of the app."""

    def _all(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        """Name, help, what to do."""
        from ..app.themes import names

        app = cast("WarplensApp", self.app)
        main = app.main
        for entry in VIEWS:
            yield f"View: {entry.title}", entry.question, partial(main.open_view, entry.name)
        for name in names():
            yield f"Theme: {name}", "colours of everything", partial(setattr, app, "theme", name)
        for key in KEYS:
            if key.label and key.place != "list" and key.name not in ("palette",):
                node = main.pane if key.place == "pane" else main
                if node is not None:
                    yield (
                        key.label.capitalize(), key.help,
                        partial(app.call_later, node.run_action, key.action),
                    )
        yield "Warnings and notes", "what was wrong in the input, and what the view left out", app.show_warnings

    async def discover(self) -> Hits:
        """All of them."""
        for name, help, act in self._all():
            yield DiscoveryHit(Content(name), act, text=name, help=help)

    async def search(self, query: str) -> Hits:
        """Those that match."""
        matcher = self.matcher(query)
        for name, help, act in self._all():
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), act, text=name, help=help)


class Palette(CommandPalette):
    """Textual's, which fails where a page is turned before its list was laid out or where there is no room for it."""

    def _action_command_list(self, action: str) -> None:
        with suppress(KeyError, IndexError):
            super()._action_command_list(action)
