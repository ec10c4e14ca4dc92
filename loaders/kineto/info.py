"""Builds the ``Info`` from the document's metadata and the counts of problems met while reading."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ..trace import Device, Info
from .document import plain_numbers

XLA_MOST_EVENTS = 1_000_000  # XLA's trace viewer export drops what exceeds this many events.
_ABSOLUTE = 10**18  # ns: from this value on (September 2001) a time is absolute, below it is relative to some start.


class Tally(Struct):
    """Counts collected while reading, which become warnings. ``whole``: the list of events was closed; ``closed``: the
    document around it, too; ``ended``: why decompression stopped early; ``fault``: another fault of a compressed file;
    ``unread``: a clause about text after the document; ``times``: sentences about times that are none."""

    events: int = 0
    flows: int = 0
    repaired: int = 0
    odd: int = 0
    dropped: int = 0
    times: list[str] = field(default_factory=list)
    summed: int = 0
    skipped_bytes: int = 0
    skipped_stretches: int = 0
    used: int = 0
    decompressed: int = 0
    whole: bool = False
    closed: bool = False
    ended: str | None = None
    fault: str | None = None
    unread: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    def warnings(self) -> tuple[str, ...]:
        """One sentence per problem."""
        out = [sentence for sentence in (self.fault, self.unread) if sentence]
        if self.whole and not self.closed and self.ended is None:
            out.append("truncated: all events were read, but the metadata after them is cut off")
        elif not self.closed:
            where = self.ended or "the file ends in the middle of the list of events"
            text = "the text that could be unpacked" if self.ended else "the text"
            share = f"{100 * self.used / self.decompressed:.1f}% of {text}" if self.decompressed else "nothing"
            out.append(f"truncated: {where}; {share} was read, {_count(self.events, 'complete event')}")
        if self.skipped_stretches:
            out.append(
                f"skipped {_count(self.skipped_stretches, 'corrupt stretch', 'corrupt stretches')} "
                f"({self.skipped_bytes:,} bytes) between events"
            )
        if self.repaired:
            out.append(f"repaired {_count(self.repaired, 'event')}: bare nan or inf, or control characters in strings")
        if self.dropped:
            out.append(f"dropped {_count(self.dropped, 'event')} without a usable timestamp")
        out += self.times
        if self.summed:
            out.append(f"{self.summed:,} memory changes are too many to track single blocks: which ones held the "
                       "peak is unknown")
        return tuple(out)


_MOST_RANKS = 10**9


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def rank_of(document: dict[str, Any]) -> int | None:
    """The recorded rank; None if there is none or it is implausible."""
    distributed = document.get("distributedInfo")
    rank = distributed.get("rank") if isinstance(distributed, dict) else None
    return rank if type(rank) is int and 0 <= rank < _MOST_RANKS else None


def devices_of(document: dict[str, Any]) -> dict[str, Device]:
    """The devices of ``deviceProperties`` (``computeProperties`` in 2021), by device name as in the tables."""
    listing = document.get("deviceProperties") or document.get("computeProperties")
    devices = {}
    for position, properties in enumerate(listing if isinstance(listing, list) else []):
        if isinstance(properties, dict):
            number = properties.get("id")
            key = f"GPU {number if type(number) is int else position}"
            name = properties.get("name")
            numbers = {k: plain_numbers(v) for k, v in properties.items() if k not in ("id", "name")}
            devices[key] = Device(key, name if isinstance(name, str) and name else None, numbers)
    return devices


def label_of(path: Path) -> str:
    """The short name of a run: the file name without trace suffixes."""
    endings = r"((\.pt)?(\.trace)?\.json|\.pftrace|\.perfetto-trace|\.perfetto|(\.xplane)?\.pb)?(\.gz|\.zst)?$"
    return re.sub(r"\.\d{10,}$", "", re.sub(endings, "", path.name, count=1)) or path.name


def describe(
    path: Path, size: int, document: dict[str, Any], tally: Tally, *, devices: list[str], ranks: list[int],
    origin: int | None, word: str, xla: bool,
) -> Info:  # fmt: skip
    """The Info of a load. ``devices`` and ``ranks`` are those in the tables, ``origin`` the absolute zero in ns."""
    described = devices_of(document)
    kinds = {(device.name, repr(sorted(device.properties.items()))) for device in described.values()}
    # ROCm numbers devices differently in activities and descriptions; harmless if all descriptions are equal
    other = next(iter(described.values())) if len(kinds) == 1 else Device("")
    recorded = {
        key: described.get(key, Device(key, other.name, other.properties)) for key in devices or described
    }
    base = document.get("baseTimeNanoseconds")
    epoch = origin
    if origin is not None and origin < _ABSOLUTE:
        epoch = base + origin if type(base) is int else None
    facts: dict[str, Any] = {"events": tally.events, "flows": tally.flows}
    facts |= {key: value for key, value in (("odd_events", tally.odd), *tally.facts.items()) if value}
    distributed = document.get("distributedInfo")
    if isinstance(distributed, dict):
        facts |= {key: distributed[key] for key in ("backend", "world_size") if key in distributed}
    for key in ("traceName", "host_name", "trace_id", "with_stack", "record_shapes", "profile_memory"):
        if isinstance(document.get(key), str | int):
            facts[key] = document[key]
    return Info(
        source=str(path), label=label_of(path), format="kineto", tool=_tool(document, word, xla, devices),
        bytes=size,
        devices=tuple(recorded[key] for key in sorted(recorded, key=_natural)), ranks=tuple(sorted(set(ranks))),
        epoch_ns=epoch, clock="wall clock" if epoch is not None else None,
        coverage=_coverage(tally),
        warnings=(*tally.warnings(), *_capped(tally, xla)), facts=facts,
    )  # fmt: skip


def _capped(tally: Tally, xla: bool) -> tuple[str, ...]:
    """A warning if XLA's exporter probably stopped at its event limit, which it does not record."""
    if not xla or tally.events < XLA_MOST_EVENTS:
        return ()
    return (
        f"this export of XLA holds {tally.events:,} events, about the {XLA_MOST_EVENTS:,} at which it stops: the rest "
        "of the capture may be missing; open its .xplane.pb, which has all",
    )


def _coverage(tally: Tally) -> float | None:
    if (tally.closed or tally.whole) and not (tally.skipped_bytes or tally.unread):
        return 1.0
    if tally.ended is not None or not tally.decompressed:
        return None
    return max(0.0, (tally.used - tally.skipped_bytes) / tally.decompressed)


_KINETO = frozenset((
    "schemaVersion", "deviceProperties", "traceName", "distributedInfo", "with_stack", "record_shapes",
    "profile_memory", "cupti_version", "cuda_runtime_version", "cuda_driver_version", "roctracer_version",
    "hip_runtime_version", "trace_id", "baseTimeNanoseconds", "host_name"))
"""Keys of Kineto's documents. One with none of them and without devices does not say who wrote it."""


def _tool(document: dict[str, Any], word: str, xla: bool, devices: list[str]) -> str:
    if xla:
        return "JAX/XLA profiler"
    if word == "NPU":
        return "Ascend PyTorch profiler"
    if "viztracer_metadata" in document:
        return "VizTracer"
    if not devices and not _KINETO.intersection(document):
        return "Chrome trace"
    versions = [
        f"{key.removesuffix('_version').replace('_', ' ')} {document[key]}"
        for key in ("cupti_version", "cuda_runtime_version", "roctracer_version", "hip_runtime_version")
        if key in document
    ]
    return "PyTorch Kineto" + (f" ({', '.join(versions)})" if versions else "")


def _natural(text: str) -> tuple[str, int]:
    head, _, tail = text.rpartition(" ")
    return (head, int(tail)) if tail.isdigit() else (text, -1)
