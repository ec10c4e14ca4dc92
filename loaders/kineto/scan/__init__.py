"""The compiled scanner of trace events. It is compiled when the package is built; this imports nothing of numba."""

from __future__ import annotations

from pathlib import Path

from ...native.program import Program

SCANNER = Program(
    name="scanner",
    module=f"{__package__}.scanner",
    names=("scan", "rehash"),
    sources=tuple(
        str(Path(__file__).parent / name)
        for name in ("layout.py", "lexer.py", "keys.py", "key_prediction.py", "scanner.py", "../columns.py")
    ),
)
