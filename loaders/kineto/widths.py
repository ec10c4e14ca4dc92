"""What all rows of a table have in common, and what they are therefore written with."""

from __future__ import annotations

from msgspec import Struct


class Basis(Struct, frozen=True):
    """The time rows count from (absolute ns), the pid that launched them by rank, the rank, what devices are called.

    ``rank`` is that of rows which do not say theirs; None in ``pids`` stands for those too.
    """

    origin: int = 0
    pids: tuple[tuple[int | None, int], ...] = ()
    rank: int | None = None
    word: str = ""
