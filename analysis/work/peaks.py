"""The peak rates of devices: FLOP/s per type and B/s of memory, from one table of data sheets.

``peaks.toml`` has the figures with their sources and doubts, without sparsity and per device as programs see it;
``[peaks]`` in the settings adds devices and corrects figures. An unknown device has no peak: none is guessed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ...loaders.trace import Device

TYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
MATRIX = {"fp64": "fp64_tensor", "fp32": "fp32_matrix"}
"""Columns for matrix units, for types whose own column is for vector units."""
SLACK = 0.15
"""Largest relative difference between a recorded memory size and that of the data sheet."""
_CLOCK_SLACK = 0.01
_VENDOR = re.compile(r"^(NVIDIA |AMD Instinct |AMD |Tesla |Intel\(R\) )+")
_OTHER_PART = re.compile(r"[ -]?(Ti|SUPER|Laptop|Max-Q|Mobile|D|NVL)\b", re.IGNORECASE)
_NAMELESS = re.compile(r"|AMD Radeon Graphics|AMD Instinct")
_CHIPS = {(9, 4, 304): ("MI300X", "MI325X"), (9, 0, 104): ("MI210",), (9, 0, 110): ("MI250X (per die)",),
          (9, 0, 120): ("MI100",)}
"""AMD chips that are recorded without a name, by capability and compute units; of two, the second has more memory."""


class BadPeaks(ValueError):
    """``[peaks]`` in the settings is invalid; the message says why."""


class DevicePeak(Struct, frozen=True):
    """The peak rates of one device model; ``scaled``: share of its units that were recorded (a slice has fewer)."""

    model: str
    names: tuple[str, ...] = ()
    size: dict[str, float] = field(default_factory=dict)
    flops: dict[str, float] = field(default_factory=dict)
    source: str = ""
    doubt: str = ""
    claimed: bool = False
    scaled: float = 1.0

    @property
    def bytes_per_s(self) -> float | None:
        """Memory bandwidth in B/s."""
        return self.size.get("bytes_per_s")

    def flops_per_s(self, type: str | None, matrix: bool) -> float | None:
        """FLOP/s for a type, on matrix units or not; None where the table has none.

        Operations other than products count at the fp32 rate whatever their type, or at that of fp64.
        """
        if not matrix:
            return self.flops.get("fp64" if type == "fp64" else "fp32")
        if type is None:
            return None
        peak = self.flops.get(MATRIX.get(type, type), self.flops.get(type))
        # before Ampere, Pascal included, bf16 and tf32 run at the rate of fp32
        return self.flops.get("fp32") if peak is None and type in ("bf16", "tf32") else peak

    @property
    def of_types(self) -> dict[str, float]:
        """FLOP/s of matrix products by type."""
        peaks = {type: self.flops.get(MATRIX.get(type, type), self.flops.get(type)) for type in TYPES}
        return {type: value for type, value in peaks.items() if value is not None}


@cache
def _table() -> tuple[DevicePeak, ...]:
    raw = tomllib.loads(Path(__file__).with_name("peaks.toml").read_text(encoding="utf-8"))
    return tuple(DevicePeak(**{**device, "names": tuple(device["names"])}) for device in raw["device"])


def peak_of(device: Device, settings: Mapping[str, Mapping[str, float]] | None = None) -> DevicePeak | None:
    """The peak of a recorded device; None where it is unknown. Raises BadPeaks for invalid settings."""
    peak = _by_name(device) or _by_chip(device) or _by_figures(device)
    peak = _scaled(peak, device) if peak is not None else None
    own = (of_settings() if settings is None else checked(settings)).get(device.name or "")
    if own is not None:
        base = peak or DevicePeak(device.name or "")
        size = {key: value for key, value in own.items() if key == "bytes_per_s"}
        flops = {MATRIX.get(key, key): value for key, value in own.items() if key != "bytes_per_s"}
        peak = replace(base, size=base.size | size, flops=base.flops | flops, source="settings", claimed=False)
    bandwidth = device.properties.get("memoryBandwidth")
    if peak is not None and isinstance(bandwidth, int | float) and bandwidth > 0:
        peak = replace(peak, size=peak.size | {"bytes_per_s": float(bandwidth)},
                       source=f"{peak.source}; memory bandwidth as recorded")
    return peak


def _by_name(device: Device) -> DevicePeak | None:
    """Exact name first, then the longest known name that it contains as whole words; memory decides between equals."""
    name = device.name or ""
    exact = [peak for peak in _table() if name in peak.names]
    if not exact:
        inside = [(len(key), peak) for peak in _table() for key in {_VENDOR.sub("", known) for known in peak.names}
                  if _is_in(key, name)]
        longest = max((length for length, _ in inside), default=0)
        exact = [peak for length, peak in inside if length == longest]
    memory = _memory(device)
    if len(exact) > 1:
        exact = [peak for peak in exact if memory and abs(memory / peak.size.get("memory", 1) - 1) <= SLACK]
    return exact[0] if len(exact) == 1 else None


def _is_in(key: str, name: str) -> bool:
    found = re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", name, re.IGNORECASE)
    return found is not None and not _OTHER_PART.match(name[found.end() :])


def _by_chip(device: Device) -> DevicePeak | None:
    """An AMD chip whose name was not recorded, by its capability, compute units and memory."""
    if not _NAMELESS.fullmatch(device.name or ""):
        return None
    numbers = device.properties
    models = _CHIPS.get((numbers.get("computeMajor"), numbers.get("computeMinor"), _units(device)))  # type: ignore[arg-type]
    memory = _memory(device)
    if models is None or memory is None:
        return None
    model = models[-1] if memory > 230e9 else models[0]
    return next(peak for peak in _table() if peak.model == model)


def _by_figures(device: Device) -> DevicePeak | None:
    """The model of a device that XLA recorded by its vendor alone: its multiprocessors, memory and highest clock, where
    these are those of one model, or of models that are alike."""
    units, memory, clock = (device.properties.get(key) for key in ("core_count", "memory_size", "clock_rate"))
    if not isinstance(units, int) or not isinstance(memory, int | float) or not isinstance(clock, int | float):
        return None
    alike = [
        peak for peak in _table() if peak.size.get("units") == units
        and abs(clock / 1000 / peak.size.get("boost_mhz", 1.0) - 1) < _CLOCK_SLACK
        and abs(memory / peak.size.get("memory", 1.0) - 1) < SLACK
    ]
    figures = {(*sorted(peak.flops.items()), ("bytes_per_s", peak.bytes_per_s)) for peak in alike}
    return alike[0] if len(figures) == 1 else None


def _scaled(peak: DevicePeak, device: Device) -> DevicePeak | None:
    """The peak scaled to the recorded number of units; None where that exceeds what the model has."""
    units, every, memory = _units(device), peak.size.get("units"), _memory(device)
    if not units or not every or units == every:
        return peak
    if units > every:
        return None
    share = units / every
    part = memory / peak.size["memory"] if memory and "memory" in peak.size else 1.0
    size = peak.size | ({"bytes_per_s": peak.size["bytes_per_s"] * part} if part < 1 - SLACK else {})
    return replace(peak, size=size, flops={key: value * share for key, value in peak.flops.items()}, scaled=share)


def _units(device: Device) -> int | None:
    recorded = next((device.properties[key] for key in ("numSms", "smCount") if key in device.properties), None)
    return int(recorded) if isinstance(recorded, int | float) and recorded > 0 else None


def _memory(device: Device) -> float | None:
    recorded = (device.properties.get(key) for key in ("totalGlobalMem", "totalMemory"))
    total = next((value for value in recorded if value is not None), None)
    return float(total) if isinstance(total, int | float) and total > 0 else None


def checked(peaks: Any) -> dict[str, dict[str, float]]:
    """``[peaks]`` of the settings: by recorded device name, FLOP/s per type and ``bytes_per_s``. Raises BadPeaks."""
    allowed = (*TYPES, "bytes_per_s")
    if not isinstance(peaks, Mapping):
        raise BadPeaks("peaks is a table of devices by name")
    for name, figures in peaks.items():
        if not isinstance(figures, Mapping) or not figures:
            raise BadPeaks(f"peaks of {name!r} are a table: {', '.join(allowed)}")
        for key, value in figures.items():
            if key not in allowed:
                raise BadPeaks(f"peaks of {name!r} have no {key}; there are {', '.join(allowed)}")
            if type(value) not in (int, float) or not 0 < value < 1e20:
                raise BadPeaks(f"{key} of {name!r} is a number above 0, in FLOP/s or B/s")
    return {name: {key: float(value) for key, value in figures.items()} for name, figures in peaks.items()}


def settings_text() -> str:
    """``[peaks]`` of the settings as text, or the error in it: a cache key for results that depend on peaks."""
    try:
        return repr(of_settings())
    except BadPeaks as error:
        return str(error)


@cache
def of_settings() -> dict[str, dict[str, float]]:
    """The ``[peaks]`` table of the settings. Raises BadPeaks."""
    from platformdirs import user_config_path

    path = user_config_path("warplens") / "config.toml"
    try:
        return checked(tomllib.loads(path.read_text(encoding="utf-8")).get("peaks", {}))
    except (OSError, ValueError) as error:
        if isinstance(error, BadPeaks):
            raise BadPeaks(f"{path}: {error}") from None
        return {}  # the app reports what is wrong with the file
