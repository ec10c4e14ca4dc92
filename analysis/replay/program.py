"""The replay's loops as a compiled program, apart because the package build imports this without polars."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...loaders.trace import compiled_program

_LONG, _ROWS = "int64[::1]", "int32[::1]"
_RUN = (
    _ROWS, *[_LONG] * 3, "float64[::1]", *[_ROWS] * 4, _LONG, _ROWS, *[_LONG] * 2, _ROWS, _LONG, _ROWS, _LONG,
    *[_ROWS] * 2, *[_LONG] * 2, _ROWS, *[_LONG] * 3, *[_ROWS] * 4, *[_LONG] * 2, *["int64"] * 3, *[_LONG] * 8)
REPLAY = compiled_program(
    name="replay",
    module=f"{__package__}.loop",
    functions=(
        ("run", ", ".join(_RUN)),
        ("bind", ", ".join([*[_LONG] * 11, "int64", *[_LONG] * 3])),
    ),
    sources=(str(Path(__file__).with_name("loop.py")),),
)


def plain(values: npt.NDArray[np.generic], kind: type = np.int64) -> npt.NDArray[np.generic]:
    """The values as compiled code needs them: contiguous, writeable, owning their data."""
    return np.require(values, kind, ["C", "W", "O"])
