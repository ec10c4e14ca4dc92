"""What comes from the keyboard: pastes are separated from keys, and each key is handled to its end before the next.

Textual posts every key at once, so keys that arrive in one packet reach the widget that had the focus before the first
of them: ``/gemm`` opens a prompt and loses its text. ``TypeAhead`` holds each key back until the app has handled the
one before: every pump on the way from the focus to the app has emptied its queue, the screen and the focus no longer
change, and the app says that it is ready. ``Pastes`` finds the two marks of a bracketed paste itself, because
Textual's parser ends one at any escape sequence in it. Invariants: nothing waits longer than ``PATIENCE``; ^C and ^Z
never wait, and ^C discards the keys typed before it, which were meant for what it cancels.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress

from textual import events
from textual.app import App, ScreenError
from textual.dom import DOMNode
from textual.message_pump import MessagePump

from .sanitiser import ACTING

PATIENCE = 2.0
"""Seconds after which a key is obeyed although the one before it has not come to its end."""
LOOK = 0.01
"""Seconds between two looks whether the app has become ready; only while keys are held back."""
PAUSE = 0.03
"""Seconds left to painting, if no other key comes, before it is found out whether the last one has been handled."""
GONE = 0.1
"""Seconds after which to look whether a widget with unhandled messages was removed."""
ROUNDS = 3
"""Times the queues between the focus and the app are emptied: a key's action posts messages, which post others."""
MOST_EARLY, MOST_HELD = 4096, 1 << 16
"""Keys held back before the first view, and later; the bell rings for others."""
LONGEST = 1 << 16
"""Characters of a paste that are kept."""
BEGIN, END = "\x1b[200~", "\x1b[201~"
_BLANKS = re.compile("\r\n|[\r\n\t\x85\u2028\u2029]")


def pasted(text: str) -> str:
    """Pasted text as a prompt takes it: each line end and tab a blank, other characters a terminal acts on dropped."""
    return ACTING.sub("", _BLANKS.sub(" ", text))


def _begun(text: str, mark: str) -> int:
    """How many characters at the end of the text begin the mark without completing it."""
    return next((length for length in range(len(mark) - 1, 0, -1) if text.endswith(mark[:length])), 0)


class Pastes:
    """Splits what the terminal sends into pastes and the rest, wherever reads cut the marks."""

    def __init__(self) -> None:
        self.inside = False
        self._before = ""  # the beginning of a mark at the end of the last read
        self._parts: list[str] = []
        self._length = 0

    def feed(self, data: str) -> Iterator[tuple[bool, str]]:
        """(False, keys) and (True, text of a paste), in order. Keys include both marks of each paste."""
        while data:
            mark, known = (END, self._before) if self.inside else (BEGIN, self._before)
            at = (known + data).find(mark)
            if at < 0:
                self._before = (known + data)[-_begun(known + data, mark):] if _begun(known + data, mark) else ""
                if self.inside:
                    self._keep((known + data).removesuffix(self._before))
                else:
                    yield False, data  # at once: the beginning of a mark may be the key Escape
                return
            end = at + len(mark) - len(known)
            if self.inside:
                self._keep((known + data)[:at])
                yield True, self.rest()
            else:
                yield False, data[:end] + END  # the parser knows both marks and is left as outside of a paste
                self.inside = True
            self._before, data = "", data[end:]

    def _keep(self, text: str) -> None:
        text = text[: LONGEST - self._length]
        self._parts.append(text)
        self._length += len(text)

    def rest(self) -> str:
        """The text so far, which ends the paste."""
        text = "".join(self._parts)
        self.inside, self._before, self._parts, self._length = False, "", [], 0
        return pasted(text)

    def pause(self) -> None:
        """Nothing came for the delay of Escape: what looked like the beginning of a mark was a key."""
        if not self.inside:
            self._before = ""


class TypedAhead(App[None]):
    """An app that says when it can take the next key."""

    is_behind = False
    """Whether keys are held back: frames between them need not be painted."""

    def caught_up(self) -> None:
        """The last key that was held back has been handled."""

    def as_active(self) -> AbstractContextManager[None]:
        """The context in which this app is the active one."""
        return nullcontext()

    @property
    def has_view(self) -> bool:
        """Whether there is something that can obey every key."""
        return True

    def can_obey(self, key: str) -> bool:
        """Whether there is something that can obey this key, by Textual's name of it."""
        return self.has_view

    @property
    def takes_keys(self) -> bool:
        """Whether what the last key opened or decided is there for the next."""
        return True


class TypeAhead:
    """Hands keys and pastes to the app one after another. Lives on the app's event loop."""

    def __init__(self, app: TypedAhead) -> None:
        self._app = app
        self._held: deque[events.Key | events.Paste] = deque()
        self._came = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def take(self, event: events.Key | events.Paste) -> None:
        """A key or a paste arrived."""
        if isinstance(event, events.Key) and event.key in ("ctrl+c", "ctrl+z"):
            if event.key == "ctrl+c":
                self.forget()
            self._app.post_message(event)
        elif len(self._held) >= (MOST_HELD if self._app.has_view else MOST_EARLY):
            self._app.bell()
        else:
            self._held.append(event)
            self._came.set()
            if self._task is None or self._task.done():
                with self._app.as_active():  # called for the input thread, in whose context no app is active
                    self._task = asyncio.get_running_loop().create_task(self._obey())

    def forget(self) -> None:
        """Discard what is held back."""
        self._held.clear()

    def end(self) -> None:
        """The driver closes."""
        self.forget()
        if self._task is not None:
            self._task.cancel()

    async def _obey(self) -> None:
        while self._held:
            if not self._app.can_obey(getattr(self._held[0], "key", "")):  # a paste has none
                await asyncio.sleep(LOOK)
                continue
            self._app.post_message(self._held.popleft())
            self._app.is_behind |= bool(self._held)
            self._came.clear()
            if not self._held:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._came.wait(), PAUSE)
            with suppress(TimeoutError, ScreenError):  # no screen: the app is closing
                async with asyncio.timeout(PATIENCE):
                    await self._handled()
            if self._app.is_behind and not self._held:
                self._app.is_behind = False
                self._app.caught_up()

    async def _handled(self) -> None:
        """Return once the last key has been handled to its end."""
        app, place, rounds = self._app, self._place(), 0
        while rounds < ROUNDS:
            await _passed(app)
            node: object = app.focused or app.screen
            while isinstance(node, MessagePump) and node is not app:
                await _passed(node)
                node = node.parent if isinstance(node, DOMNode) else None
            rounds += 1
            if not app.takes_keys:
                rounds = 0
                await asyncio.sleep(LOOK)
            elif place != self._place():
                place, rounds = self._place(), 1
                await _passed(app.screen, refreshed=True)

    def _place(self) -> tuple[object, object]:
        return self._app.screen, self._app.focused


async def _passed(node: MessagePump, refreshed: bool = False) -> None:
    """Wait until the node has handled the messages in its queue; ``refreshed``: and the screen is laid out."""
    done = asyncio.get_running_loop().create_future()
    later = node.call_after_refresh if refreshed else node.call_later
    while later(_set, done) and not done.done():
        await asyncio.wait([done], timeout=GONE)
        if not node.is_attached:  # closed with messages in its queue
            return


def _set(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
