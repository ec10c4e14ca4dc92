"""``:``: every command by name. Views, themes and keys come from their registries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from ...analysis.views import VIEWS, lacking
from ..session.keys import KEYS, Key
from ..session.messages import ActionRequest, ViewRequest, WarningsRequest
from ..terminal.textual_hooks import tolerant


class Commands(Provider):
    """The commands of the app."""

    def _all(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        """Name, help and callback of each command."""
        from ..session.themes import names

        send, runs = self.app.post_message, cast(Any, self.app).session.traces
        for entry in VIEWS:
            yield f"View: {entry.title}", lacking(entry, runs) or entry.question, partial(send, ViewRequest(entry.name))
        for name in names():
            yield f"Theme: {name}", "colours of everything", partial(setattr, self.app, "theme", name)
        for key in KEYS:
            if key.label and key.name != "palette" and self._works(key):
                yield key.label.capitalize(), key.help, partial(send, ActionRequest(key.place, key.action))
        what = "what was wrong in the input, and what the view left out"
        yield "Warnings and notes", what, partial(send, WarningsRequest())

    def _works(self, key: Key) -> bool:
        """Whether the key does something on this screen: keys of a list or timeline only if it has the focus."""
        if key.place in ("screen", "pane"):
            return True
        ids = {getattr(one, "id", None) for one in getattr(self.focused, "BINDINGS", ())}
        return key.id in ids and hasattr(self.focused, f"action_{key.action.partition('(')[0]}")

    async def discover(self) -> Hits:
        """All commands."""
        for name, help, act in self._all():
            yield DiscoveryHit(Content(name), act, text=name, help=help)

    async def search(self, query: str) -> Hits:
        """The commands that match."""
        matcher = self.matcher(query)
        for name, help, act in self._all():
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), act, text=name, help=help)


class _Views(Commands):
    """Some views alone."""

    names: Sequence[str] = ()

    def _all(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        for entry in VIEWS:
            if entry.name in self.names:
                yield f"View: {entry.title}", entry.question, partial(self.app.post_message, ViewRequest(entry.name))


def of_views(names: Sequence[str]) -> type[Provider]:
    """The provider of these views alone."""
    return type("MoreViews", (_Views,), {"names": tuple(names)})


Palette = tolerant(CommandPalette)
