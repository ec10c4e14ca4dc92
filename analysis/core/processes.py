"""Which process of run A is compared with which of run B.

A process keeps its pid only where the same recorder watched the same live process twice; after a restart the numbers
differ. So processes are paired by pid where both runs have it ("strict") and every remaining one of A with every
remaining one of B ("cross"): a table each, never one over several processes.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ..table.view import CannotAnswer
from .options import Options


class ProcessPair(Struct, frozen=True):
    """One process of each run; None on both sides where the runs record no processes."""

    a: int | None
    b: int | None
    strict: bool


def process_pairs(a: Iterable[int | None], b: Iterable[int | None], options: Options) -> list[ProcessPair]:
    """The pairs in ascending order, strict ones first; ``options.pid_a``/``pid_b`` pick one. Raises CannotAnswer."""
    left, right = _ordered(a), _ordered(b)
    if options.pid_a is not None or options.pid_b is not None:
        wanted_a = options.pid_a if options.pid_a is not None else options.pid_b
        wanted_b = options.pid_b if options.pid_b is not None else options.pid_a
        for name, wanted, have in (("A", wanted_a, left), ("B", wanted_b, right)):
            if wanted not in have:
                known = ", ".join(str(pid) for pid in have if pid is not None) or "none"
                raise CannotAnswer(f"Run {name} has no process {wanted}; it has {known}.")
        return [ProcessPair(wanted_a, wanted_b, wanted_a == wanted_b)]
    both = [pid for pid in left if pid in right]
    pairs = [ProcessPair(pid, pid, True) for pid in both]
    pairs += [
        ProcessPair(x, y, False) for x in left if x not in both for y in right if y not in both
    ]
    return pairs


def _ordered(pids: Iterable[int | None]) -> list[int | None]:
    return sorted(set(pids), key=lambda pid: (pid is None, pid or 0))
