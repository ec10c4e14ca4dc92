"""The terminal's clipboard: tmux's own command in tmux, else OSC 52, also through screen.

tmux passes OSC 52 on only as far as its settings allow, and does not say so; ``tmux load-buffer -w`` puts it in tmux's
buffer and the terminal's clipboard whatever they are, and its exit status is an answer. A terminal does not report
whether it accepted the text, so that is decided beforehand: the Linux console has no clipboard, and terminals drop text
that is too long. The caller then writes a file instead. The text is sent as base64,
so that nothing in it can act on the terminal.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Mapping

from ...loaders import files

LONGEST_S = 2.0
"""Seconds that tmux may take."""
LONGEST = 74_994
"""Bytes of text that xterm accepts; other terminals accept more, none documents it."""


def in_tmux(text: str, environment: Mapping[str, str]) -> bool | None:
    """Whether tmux took the text, within ``LONGEST_S``; None outside tmux."""
    if not environment.get("TMUX"):
        return None
    program = files.program("tmux")
    if program is None:
        return False
    try:
        done = subprocess.run(
            [program, "load-buffer", "-w", "-"], input=text.encode(), capture_output=True, timeout=LONGEST_S,
            check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def sequence(text: str, environment: Mapping[str, str]) -> str | None:
    """The escape sequence to write; None if no clipboard would accept the text."""
    data = text.encode()
    term = environment.get("TERM", "")
    if len(data) > LONGEST or term in ("linux", "dumb", ""):
        return None
    osc = f"\x1b]52;c;{base64.b64encode(data).decode()}\a"
    if term.startswith("screen"):
        # screen accepts strings of at most 768 bytes
        parts = [osc[at : at + 700] for at in range(0, len(osc), 700)]
        return "".join(f"\x1bP{part}\x1b\\" for part in parts)
    return osc
