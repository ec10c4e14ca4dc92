"""What an export says about itself: tool, devices, start of the session, and what its recorder complained about.

META_DATA_CAPTURE, TARGET_INFO_SYSTEM_ENV and the like hold the environment and the user's machine. Nothing is taken
from them: only the columns named here are ever read.
"""

from __future__ import annotations

from typing import Any

from ..trace import Device
from .database import NsysDatabase

_PRODUCT, _VERSION, _SCHEMA = "EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION"
_PROPERTIES = (
    "busLocation", "totalMemory", "memoryBandwidth", "clockRate", "smCount", "computeMajor", "computeMinor", "chipName",
    "l2CacheSize", "maxWarpsPerSm", "maxBlocksPerSm",
)
_WARNING, _ERROR = 2, 3
_MOST_WARNINGS = 12


def tool(database: NsysDatabase) -> tuple[str, str | None]:
    """The program that wrote it, with its version, and the version of the schema, None for exports before 2021."""
    facts: dict[str, str] = {}
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        for name, value in database.rows(table, "name", "value"):
            if name in (_PRODUCT, _VERSION, _SCHEMA):
                facts[str(name)] = str(value)
    product = facts.get(_PRODUCT, "NVIDIA Nsight Systems").removeprefix("NVIDIA ")
    return f"{product} {facts.get(_VERSION, '')}".strip(), facts.get(_SCHEMA)


def epoch(database: NsysDatabase) -> int | None:
    """Nanoseconds since 1970 at the export's time zero."""
    row = database.first("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
    return int(row[0]) if row is not None and isinstance(row[0], int) else None


def devices(database: NsysDatabase, recorded: list[str]) -> tuple[Device, ...]:
    """The GPUs of the machine as described, and those only seen in the records."""
    results: dict[str, Device] = {}
    for number, name, *values in database.rows("TARGET_INFO_GPU", "id", "name", *_PROPERTIES):
        properties: dict[str, Any] = {
            key: value for key, value in zip(_PROPERTIES, values, strict=True) if value is not None
        }
        results[f"GPU {number}"] = Device(f"GPU {number}", str(name) if name else None, properties)
    for device in recorded:
        results.setdefault(device, Device(device))
    return tuple(results[key] for key in sorted(results, key=lambda key: (len(key), key)))


def ranks(database: NsysDatabase) -> dict[int, int]:
    """MPI rank by process id."""
    pairs = database.rows("MPI_RANKS", "globalTid", "rank")
    return {tid >> 24 & 0xFFFFFF: rank for tid, rank in pairs if isinstance(tid, int) and isinstance(rank, int)}


def warnings(database: NsysDatabase) -> list[str]:
    """What the recorder itself reported as a warning or an error, each once."""
    results: dict[str, None] = {}
    for severity, text in database.rows("DIAGNOSTIC_EVENT", "severity", "text"):
        if severity in (_WARNING, _ERROR):
            kind = "error" if severity == _ERROR else "warning"
            results[f"the recorder's {kind}: {' '.join(str(text).split())[:300]}"] = None
    sentences = list(results)
    rest = len(sentences) - _MOST_WARNINGS
    return [*sentences[:_MOST_WARNINGS], f"{rest} more warnings of the recorder"] if rest > 0 else sentences
