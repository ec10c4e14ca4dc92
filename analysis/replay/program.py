"""The replay's loops as a program, for building a package imports this without polars."""

from __future__ import annotations

from pathlib import Path

from ...loaders.trace import compiled_program

_LONG = "int64[::1]"
REPLAY = compiled_program(
    name="replay",
    module=f"{__package__}.loop",
    functions=(
        ("run", ", ".join([*[_LONG] * 4, "float64[::1]", *[_LONG] * 28])),
        ("bind", ", ".join([*[_LONG] * 11, "int64", *[_LONG] * 3])),
    ),
    sources=(str(Path(__file__).with_name("loop.py")),),
)
