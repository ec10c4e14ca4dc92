"""Texts as codes of the categorical type all tables share in this process, and the other way round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

CATEGORICAL = pl.Categorical()
_HELD = pl.Series(["GPU 0"], dtype=CATEGORICAL)  # Codes mean something for as long as a column of the type is there.


def codes(texts: Sequence[str]) -> npt.NDArray[np.uint32]:
    """The codes of texts, entering those that are new."""
    physical: npt.NDArray[np.uint32] = pl.Series(texts, dtype=CATEGORICAL).to_physical().to_numpy()
    return physical


def column(codes: npt.NDArray[np.uint32]) -> pl.Series:
    """The column of these texts."""
    return pl.Series(codes).cat.to(CATEGORICAL)
