"""The terminal's clipboard: OSC 52, through tmux and screen where they stand between, or not at all.

Nothing tells whether a terminal took the text, so what is known beforehand decides: the Linux console has no clipboard,
and terminals drop what is too long. Then the caller writes a file instead. The text goes out as base64, so nothing
in it can act on the terminal.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

LONGEST = 74_994
"""Bytes of text xterm takes; others take more, none says so."""


def sequence(text: str, environment: Mapping[str, str]) -> str | None:
    """What to write to the terminal; None where no clipboard would take it."""
    data = text.encode()
    term = environment.get("TERM", "")
    if len(data) > LONGEST or term in ("linux", "dumb", ""):
        return None
    osc = f"\x1b]52;c;{base64.b64encode(data).decode()}\a"
    if environment.get("TMUX"):
        return "\x1bPtmux;" + osc.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if term.startswith("screen"):
        # screen passes on strings of at most 768 bytes
        parts = [osc[at : at + 700] for at in range(0, len(osc), 700)]
        return "".join(f"\x1bP{part}\x1b\\" for part in parts)
    return osc
