"""Metrics: their natural unit, and whether a change in one can slow functions down or only follows from them.

A capacity is what the machine provides: clocks, temperature, power, and what other users leave of links, buses,
processors and disks. Own use is what the process consumes: it rises and falls with the work and explains nothing.
``load`` puts capacities on one scale, the logarithm of how much less is left, so that a clock at a sixth, a half-used
processor and a link with 250 GB/s of foreign traffic can be compared.
"""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from . import units
from .text import display

Floats = NDArray[np.float64]
Role = Literal["capacity", "room", "own use"]
Means = Literal["clock", "warmth", "traffic", "processor", "room", "own use"]
TRAFFIC_SCALE = {"pcie": 4e9, "link": 25e9, "net": 1e9}
"""B/s of foreign traffic at which half of a bus, link or network counts as used up: a quarter of its one-way bandwidth,
since bursts fill it long before the average does."""


class Metric(Struct, frozen=True):
    """A metric by its recorded name: unit, the divisor that converts the reference's μ to that unit, and its meaning.
    ``own_use`` names the metric of the process's own share of it, if that is recorded separately."""

    name: str
    unit: str
    divisor: float
    means: Means
    scale: float = 1.0
    own_use: str | None = None

    @property
    def role(self) -> Role:
        """'capacity', 'room' (how full something is) or 'own use'."""
        if self.means in ("room", "own use"):
            return self.means
        return "capacity"


_PATTERNS: tuple[tuple[str, Means, str], ...] = (
    (r"^process_|^container_", "own use", "%"),
    (r"frequency|clock|clk$|^gfx_clk", "clock", "MHz"),
    (r"temperature|temp$|tmptr$|mmtmp$", "warmth", "°C"),
    (r"power|^pwr$", "warmth", "W"),
    (r"pcie|^[rt]xpci$|^pci[rt]x$|^[rt]xtpt$", "traffic", "B/s"),
    (r"link|xgmi|^nvl[rt]x$", "traffic", "B/s"),
    (r"^net|network|[rt]x_rate|rdma|infiniband", "traffic", "B/s"),
    (r"host_cpu|cpu_usage|cpu_util", "processor", "%"),
    (r"disk.*(rate|read|write|iops)", "traffic", "B/s"),
    (r"disk|mem_used|mem_usage|memory_used", "room", "%"),
)


_TITLES = {
    "gpu_sm_frequency": "SM clock", "gpu_frequency": "GPU clock", "gpu_mem_frequency": "memory clock",
    "cpu_frequency": "CPU clock", "host_cpu_usage": "CPU usage", "gpu_link_receive": "link traffic received",
    "gpu_link_transmit": "link traffic sent", "gpu_pcie_receive": "PCIe traffic received",
    "gpu_pcie_transmit": "PCIe traffic sent", "gpu_usage": "GPU usage",
}


def title(name: str) -> str:
    """The metric's name in a sentence, such as SM clock; the recorded name if there is no common one."""
    return _TITLES.get(name, display(name, 60))


_MEMORY = re.compile(r"memory change|allocated|reserved", re.I)


def is_memory_counter(name: str) -> bool:
    """Whether the counter measures the process's own allocations: they follow from its work and are no resource."""
    return _MEMORY.search(name) is not None


_OWN_USE: dict[Means, str] = {"processor": "process_cpu_usage"}
"""The metric of the process's own share of a capacity that all processes use."""


def metric(name: str, unit: str | None, largest: float) -> Metric:
    """The metric with that recorded name; ``unit`` as its counter records it (None if unknown), ``largest`` its largest
    μ. μ is a percentage for ratios and a hundred times the unit for everything else."""
    lowered = name.lower()
    means: Means = "own use"
    natural = ""
    for pattern, meaning, usual in _PATTERNS:
        if re.search(pattern, lowered):
            means, natural = meaning, usual
            break
    else:
        natural = "%" if re.search(r"util|usage|occupancy|share", lowered) else ""
    if "cpu_freq" in lowered and largest <= 150 and unit in (None, "", "%", "MHz"):
        natural = "%"  # of its maximum
    elif unit:
        natural = unit
    elif means == "room" and largest > 200:
        natural = "B"
    scale = next((size for key, size in TRAFFIC_SCALE.items() if key in lowered), 1e9)
    return Metric(name, natural, 1.0 if natural == "%" else 100.0, means, scale, _OWN_USE.get(means))


MOST_PERCENT = 100_000
"""Even a thousand fully used processors stay below this; a larger value is not a percentage, whatever its name says."""


def display_unit(name: str, unit: str | None, largest: float | None) -> str:
    """The unit in which that counter's samples are shown: the recorded one, else the one its name implies."""
    natural = metric(name, unit or None, largest or 0.0).unit
    if not unit and natural == "%" and (largest or 0.0) > MOST_PERCENT:
        return ""
    return display("°C" if natural == "C" else natural, 12)


def load(one: Metric, value: Floats, own: Floats) -> Floats:
    """The metric on the loss scale: a larger value leaves less for the process. ``own`` is the process's own use."""
    match one.means:
        case "clock":
            return -np.log(np.maximum(value, 1e-9))
        case "warmth":
            return 0.2 * np.log(np.maximum(value, 1e-9))
        case "traffic":
            return np.log1p(np.maximum(value - own, 0.0) / one.scale)
        case "processor":
            return -np.log1p(-np.clip((value - own) / 100, 0.0, 0.99))
        case "room":
            full = value / 100 if one.unit == "%" else np.zeros_like(value)
            return -0.1 * np.log1p(-np.clip(full, 0.0, 0.99))
    return np.log1p(np.maximum(value, 0.0))


def value_text(value: float | None, unit: str) -> str:
    """A value with its unit, as in a sentence: 1,187 MHz, 250 GB/s, 56%."""
    if value is None:
        return "–"
    if unit == "B":
        return units.size(value)
    if unit == "B/s":
        for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= factor:
                return f"{_figures(value / factor)} {letter}{unit}"
        return f"{round(value)} {unit}".replace("-", "−")
    return f"{_figures(value)}{'%' if unit == '%' else f' {unit}' if unit else ''}"


LEAST_SHOWN = 0.0005  # A value closer to 0 than this is rounding error, not a reading.


def _figures(value: float) -> str:
    size = abs(value)
    if size < LEAST_SHOWN:
        return "0"
    text = f"{value:,.0f}" if size >= 100 else f"{value:.1f}".removesuffix(".0") if size >= 1 else f"{value:.2g}"
    return text.replace("-", "−", 1) if value < 0 else text


def change(a: float | None, b: float | None, unit: str) -> str:
    """Two values, with the unit once if they share it: 1,187 → 210 MHz."""
    first, second = value_text(a, unit), value_text(b, unit)
    tail = second.rpartition(" ")[2]
    if " " in second and first.endswith(f" {tail}"):
        first = first.removesuffix(f" {tail}")
    elif second.endswith("%"):
        first = first.removesuffix("%")
    return f"{first} → {second}"


def mean_within_range(values: pl.Expr) -> pl.Expr:
    """The mean of the known values: their sum divided, which is exact for equal whole values, unless that leaves the
    range of float64."""
    known = values.drop_nulls()
    whole = known.sum()
    return pl.when(known.len() > 0).then(
        pl.when(whole.is_finite()).then(whole / known.len()).otherwise((known / known.len()).sum()))
