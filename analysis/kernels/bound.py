"""What holds a kernel back: tensor cores, memory, the launch itself, or none of these.

The rule works on utilisation weighted by duration, so it says something about the time, not about the launches. Where a
utilisation was not measured nothing is claimed; ``low`` is an invitation to look, not an answer.
"""

from __future__ import annotations

import polars as pl

from ..contract.options import Thresholds

COMPUTE, MEMORY, LAUNCH, LOW = "compute", "memory", "launch", "low"
MEANINGS = {
    COMPUTE: "tensor cores at least half busy",
    MEMORY: "DRAM at least half busy",
    LAUNCH: "neither is a tenth busy and it is shorter than ten launches take",
    LOW: "none of these: worth a look",
}
"""Every bound there is and what it says."""


def bound(thresholds: Thresholds, *, tensor: str = "tensor", dram: str = "dram", mean: str = "mean_ns") -> pl.Expr:
    """The bound of each row from its utilisations (fractions 0-1 of peak) and mean duration (ns); null makes no claim.

    One measured utilisation above its threshold is enough for ``compute`` or ``memory``; ``launch`` and ``low`` need
    both.
    """
    on_tensor, on_dram = pl.col(tensor), pl.col(dram)
    short = pl.col(mean) < thresholds.launches * thresholds.launch_ns
    return (
        pl.when(on_tensor >= thresholds.tensor).then(pl.lit(COMPUTE))
        .when(on_dram >= thresholds.dram).then(pl.lit(MEMORY))
        .when(on_tensor.is_null() | on_dram.is_null()).then(pl.lit(None, dtype=pl.String))
        .when((on_tensor < thresholds.idle) & (on_dram < thresholds.idle) & short).then(pl.lit(LAUNCH))
        .otherwise(pl.lit(LOW))
    )
