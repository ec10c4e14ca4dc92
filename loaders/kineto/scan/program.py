"""The scanner as a program that is compiled once per machine. Imports nothing of what compiles it."""

from __future__ import annotations

from pathlib import Path

from ...native.code_cache import Program

_SOURCES = "layout", "lexer", "keys", "key_prediction", "scanner", "signatures"
SCANNER = Program(
    name="scanner",
    module=f"{__package__}.signatures",
    names=("scan", "rehash"),
    sources=(
        *(str(Path(__file__).with_name(f"{name}.py")) for name in _SOURCES),
        str(Path(__file__).parents[1] / "columns.py"),
    ),
)
