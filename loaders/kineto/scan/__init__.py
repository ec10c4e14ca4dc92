"""The compiled scanner of trace events. It is compiled at package build time; this module does not import numba."""

from __future__ import annotations

from pathlib import Path

from ...native.program import Program

_ROW = "int64[::1], int32[::1], float64[::1]"
_COLUMNS = "int64[:, ::1], int32[:, ::1], float64[:, ::1]"
SCANNER = Program(
    name="scanner",
    module=f"{__package__}.scanner",
    functions=(
        ("scan", f"uint8[::1], int64, {_ROW}, {_COLUMNS}, {_COLUMNS}, int64[:, ::1], int32[:, ::1], int64[:, ::1], "
                 "uint8[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], uint8[::1], int64[::1], uint64[::1], "
                 "int32[::1], uint64, uint64[::1], int64[::1], int64[::1]"),
        ("rehash", "uint64[::1], int64, int32[::1]"),
    ),
    sources=tuple(str(Path(__file__).parent / f"{name}.py") for name in
                  ("layout", "lexer", "keys", "scanner", "../columns")),
)  # fmt: skip
