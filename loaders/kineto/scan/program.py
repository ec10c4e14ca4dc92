"""The scanner as a program that is compiled once per machine. Imports nothing of what compiles it."""

from __future__ import annotations

from pathlib import Path

from ..machine.kept import Program

_SOURCES = "columns", "layout", "lexer", "keys", "habits", "scanner", "signatures"
SCANNER = Program(
    name="scanner",
    module=f"{__package__}.signatures",
    names=("scan", "rehash"),
    sources=tuple(str(Path(__file__).with_name(f"{name}.py")) for name in _SOURCES),
)
