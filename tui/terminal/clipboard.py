"""The terminal's clipboard: OSC 52, also through tmux and screen.

A terminal does not report whether it accepted the text, so that is decided beforehand: the Linux console has no
clipboard, and terminals drop text that is too long. The caller then writes a file instead. The text is sent as base64,
so that nothing in it can act on the terminal.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

LONGEST = 74_994
"""Bytes of text that xterm accepts; other terminals accept more, none documents it."""


def sequence(text: str, environment: Mapping[str, str]) -> str | None:
    """The escape sequence to write; None if no clipboard would accept the text."""
    data = text.encode()
    term = environment.get("TERM", "")
    if len(data) > LONGEST or term in ("linux", "dumb", ""):
        return None
    osc = f"\x1b]52;c;{base64.b64encode(data).decode()}\a"
    if environment.get("TMUX"):
        return "\x1bPtmux;" + osc.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if term.startswith("screen"):
        # screen accepts strings of at most 768 bytes
        parts = [osc[at : at + 700] for at in range(0, len(osc), 700)]
        return "".join(f"\x1bP{part}\x1b\\" for part in parts)
    return osc
