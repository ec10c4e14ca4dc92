"""What a collective does, how its bytes are counted, and how much of them crosses the bus.

The kind is told by the recorded name of the collective, else by the name of its kernel. Bytes are counted as nccl-tests
does: what a rank gives or gets, whichever is more, so that an all-gather counts the gathered and a reduce-scatter the
whole buffer. Factors of the bus bandwidth are those of nccl-tests' PERFORMANCE page.
"""

from __future__ import annotations

import re

import polars as pl

ALLREDUCE, ALLGATHER, REDUCE_SCATTER, ALL_TO_ALL = "allreduce", "allgather", "reducescatter", "alltoall"
BROADCAST, REDUCE, GATHER, SCATTER, BARRIER = "broadcast", "reduce", "gather", "scatter", "barrier"
SEND, RECEIVE, SEND_RECEIVE, UNKNOWN = "send", "recv", "sendrecv", "collective"
_NAMES = (
    (REDUCE_SCATTER, r"reduce_?scatter"), (ALLREDUCE, r"all_?reduce|allreduce|multimem_(?:one|two)_shot"),
    (ALLGATHER, r"all_?gather"), (ALL_TO_ALL, r"all_?to_?all|deep_?ep"), (SEND_RECEIVE, r"send_?recv"),
    (BROADCAST, r"broadcast"), (BARRIER, r"barrier"), (GATHER, r"gather"), (SCATTER, r"scatter"), (REDUCE, r"reduce"),
    (SEND, r"send"), (RECEIVE, r"recv"),
)
ENDS_TOGETHER = (ALLREDUCE, ALLGATHER, REDUCE_SCATTER, ALL_TO_ALL, BARRIER, SEND_RECEIVE, UNKNOWN)
"""Kinds in which nobody is done before everybody came: the sender of a broadcast may leave early."""
ONE_SIZE = (ALLREDUCE, ALLGATHER, REDUCE_SCATTER, BROADCAST, REDUCE)  # Kinds whose message has one size on all ranks.
PAIRED = (SEND, RECEIVE)
"""Kinds between two ranks of a group that may have more: their order in the group tells nothing."""
_ELEMENT_BYTES = {
    "double": 8, "long": 8, "int64": 8, "uint64": 8, "complexfloat": 8, "float": 4, "float32": 4, "int": 4, "int32": 4,
    "uint32": 4, "half": 2, "float16": 2, "bfloat16": 2, "short": 2, "uint16": 2, "complexhalf": 4, "byte": 1,
    "char": 1, "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "complexdouble": 16, "float64": 8,
}


def kind_of(name: str | None) -> str:
    """The kind by the name of a collective or of its kernel; ``collective`` where it does not tell."""
    text = (name or "").lower().split("(", 1)[0]
    return next((kind for kind, pattern in _NAMES if re.search(pattern, text)), UNKNOWN)


def element_bytes(dtype: str | None) -> int | None:
    """Bytes of one element of a recorded type; None for types nobody named."""
    return _ELEMENT_BYTES.get((dtype or "").lower().removeprefix("c10::"))


def bus_factor(kind: pl.Expr, ranks: pl.Expr) -> pl.Expr:
    """Bus bandwidth over algorithm bandwidth; null for groups of one and where the size of the group is unknown."""
    n = ranks.cast(pl.Float64)
    factor = (
        pl.when(kind == ALLREDUCE).then(2 * (n - 1) / n)
        .when(kind.is_in([ALLGATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER])).then((n - 1) / n)
        .when(kind.is_in([BROADCAST, REDUCE, SEND, RECEIVE, SEND_RECEIVE])).then(1.0)
    )
    return pl.when(n > 1).then(factor)
