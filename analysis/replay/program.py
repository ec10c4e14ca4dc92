"""The replay's loops as a program, for building a package imports this without polars."""

from __future__ import annotations

from pathlib import Path

from ...loaders.native.program import Program

REPLAY = Program(
    name="replay",
    module=f"{__package__}.signatures",
    names=("compiled_run", "compiled_bind"),
    sources=tuple(str(Path(__file__).with_name(f"{name}.py")) for name in ("loop", "signatures")),
)
