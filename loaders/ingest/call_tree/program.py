"""The sweep as a program, in a file of its own: building a package imports this without polars."""

from __future__ import annotations

from pathlib import Path

from ...native.program import Program

SWEEP = Program(
    name="call-tree",
    module=f"{__package__}.signatures",
    names=("compiled_sweep",),
    sources=tuple(str(Path(__file__).with_name(f"{name}.py")) for name in ("sweep", "signatures")),
)
