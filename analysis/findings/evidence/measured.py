"""All that the rules look at beside the overview's own figures, taken from one run or a piece of it."""

from __future__ import annotations

from msgspec import Struct

from ....loaders.trace import Trace
from ...core.options import Options
from .copies import Copies, copies_of
from .cycle_times import CycleTimes, cycle_times_of
from .kernel_times import KernelTimes, kernel_times_of
from .samples import Samples, samples_of
from .waits import Waits, waits_of


class Measured(Struct, frozen=True):
    """What was recorded of each subject; None where nothing was."""

    waits: Waits | None = None
    copies: Copies | None = None
    kernels: KernelTimes | None = None
    cycles: CycleTimes | None = None
    samples: Samples | None = None


def measured(run: Trace, piece: Trace, options: Options) -> Measured:
    """The evidence of a piece of a run, with callers and cycles of the whole run."""
    return Measured(
        waits_of(run, piece), copies_of(piece), kernel_times_of(piece), cycle_times_of(run, options),
        samples_of(run, piece),
    )
