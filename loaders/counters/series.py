"""The series of Prometheus: which counter of which device each is, told by its labels, and in which unit."""

from __future__ import annotations

import re
from collections import defaultdict

import polars as pl

from ..ingest import limits
from . import dcgm_fields, quantities

_LABEL = re.compile(r'([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_DEVICES = ("gpu", "gpu_id", "gpu_index", "gpuid", "minor_number", "index", "device")
_HOSTS = ("Hostname", "hostname", "host", "node", "instance", "exported_instance")
_PRODUCTS = ("modelName", "card_model", "gpu_model", "name", "product_name")
_NUMBERED = re.compile(r"^(?:gpu|nvidia|card|cuda:)?[ _]?(\d{1,4})$", re.I)
_ENDS = {"_bytes": "B", "_celsius": "C", "_watts": "W", "_hertz": "Hz", "_ratio": "ratio", "_percent": "%",
         "_joules": "J", "_seconds": "s"}  # fmt: skip


class Names:
    """Numbers the series it is told, and says in the end what each is called."""

    def __init__(self) -> None:
        self._known: list[tuple[str, dict[str, str]]] = []
        self._written: dict[str, int] = {}
        self.products: dict[str, str] = {}

    def add(self, name: str, labels: dict[str, str]) -> int:
        """The number of a series that was not there before. Raises limits.Exceeded."""
        limits.check("names", len(self._known) + 1, f"holds more than {len(self._known):,} series")
        self._known.append((name, labels))
        return len(self._known) - 1

    def written(self, text: str) -> int:
        """The number of a series as an exposition writes it, ``name{label="value"}``. Raises limits.Exceeded."""
        if text not in self._written:
            name, _, rest = text.partition("{")
            self._written[text] = self.add(name, dict(_LABEL.findall(rest)))
        return self._written[text]

    def told(self, units: dict[str, str]) -> pl.DataFrame:
        """``place metric device unit scale`` of every series; ``units`` are those that were said beside them."""
        hosts = {_first(labels, _HOSTS) for _, labels in self._known}
        several = len(hosts - {None}) > 1
        devices = [_device(labels, several) for _, labels in self._known]
        for device, (_, labels) in zip(devices, self._known, strict=True):
            if device is not None and (product := _first(labels, _PRODUCTS)):
                self.products.setdefault(device, product)
        groups: dict[tuple[str, str | None], list[int]] = defaultdict(list)
        for number, ((name, _), device) in enumerate(zip(self._known, devices, strict=True)):
            groups[name, device].append(number)
        metrics = [name for name, _ in self._known]
        for (name, _), indices in groups.items():
            if len(indices) > 1:
                for number in indices:
                    metrics[number] = _with_labels(name, self._known[number][1], self._differing(indices))
        measures = [_measure(name, units) for name, _ in self._known]
        return pl.DataFrame(
            {"place": range(len(metrics)), "metric": metrics, "device": devices,
             "unit": [unit for unit, _ in measures], "scale": [scale for _, scale in measures]},
            schema={"place": pl.Int64, "metric": pl.String, "device": pl.String, "unit": pl.String,
                    "scale": pl.Float64},
        )

    def _differing(self, indices: list[int]) -> list[str]:
        """The labels whose values are not the same in all of these series."""
        seen: dict[str, set[str | None]] = defaultdict(set)
        keys = {key for place in indices for key in self._known[place][1]}
        for place in indices:
            for key in keys:
                seen[key].add(self._known[place][1].get(key))
        return sorted(key for key, values in seen.items() if len(values) > 1)


def _first(labels: dict[str, str], keys: tuple[str, ...]) -> str | None:
    return next((labels[key] for key in keys if labels.get(key)), None)


def _device(labels: dict[str, str], several_hosts: bool) -> str | None:
    """'GPU 3', behind its host where there are several; None where no label names a device."""
    for key in _DEVICES:
        match = _NUMBERED.match(labels.get(key, ""))
        if match and (key != "device" or not labels[key].isdigit()):
            host = _first(labels, _HOSTS) if several_hosts else None
            return f"{host} GPU {int(match[1])}" if host else f"GPU {int(match[1])}"
    return None


def _with_labels(name: str, labels: dict[str, str], keys: list[str]) -> str:
    suffix = ",".join(f'{key}="{labels[key]}"' for key in keys if key in labels)
    return f"{name}{{{suffix}}}" if suffix else name


def _measure(name: str, units: dict[str, str]) -> tuple[str, float]:
    """Natural unit and factor: by DCGM's manual, else as the exposition says, else by the ending of the name."""
    ending = name.removesuffix("_total")
    said = dcgm_fields.unit_of(name) or units.get(name) or next(
        (unit for end, unit in _ENDS.items() if ending.endswith(end)), "")
    return quantities.natural(said) or ("", 1.0)
