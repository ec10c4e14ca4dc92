"""The scanner as a program that is compiled when the package is built. Imports nothing of what compiles it."""

from __future__ import annotations

from pathlib import Path

from ...native.program import Program

_SOURCES = "layout", "lexer", "keys", "key_prediction", "scanner", "table_rows", "signatures"
_MEANINGS = "columns", "dialect", "interning"
SCANNER = Program(
    name="scanner",
    module=f"{__package__}.signatures",
    names=("scan", "rehash", "host_rows", "device_rows", "narrowed"),
    sources=(
        *(str(Path(__file__).with_name(f"{name}.py")) for name in _SOURCES),
        *(str(Path(__file__).parents[1] / f"{name}.py") for name in _MEANINGS),
        str(Path(__file__).parents[2] / "schema_limits.py"),
    ),
)
