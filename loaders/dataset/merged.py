"""What is known of a dataset as a whole, from what is known of its recordings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ingest.store import info_from_plain
from ..trace import REDUCED, Info
from .layout import Part

MOST = 8
"""Ranks named in a warning that several share; more are counted."""


def merged(source: str, label: str, members: Sequence[Part]) -> Info:
    """The Info of all recordings together: their devices, ranks, hosts, sizes, and warnings said once."""
    infos = [info_from_plain(member.info) for member in members]
    sizes = [info.bytes for info in infos if info.bytes is not None]
    covered = [(info.coverage, info.bytes or 1) for info in infos if info.coverage is not None]
    devices = {device.id: device for info in reversed(infos) for device in info.devices}
    weight = sum(size for _, size in covered)
    tools = {info.tool for info in infos}
    lost: dict[str, None] = {}
    files: dict[str, str] = {}
    hosts: dict[str, Any] = {}
    for member, info in zip(members, infos, strict=True):
        lost |= dict.fromkeys((info.facts.get(REDUCED) or {}).get("without", ()))
        for rank in member.ranks:
            files[str(rank)] = info.source
            hosts[str(rank)] = (info.facts.get("hosts") or {}).get(str(rank)) or info.facts.get("host_name")
    formats = sorted({info.format for info in infos})
    return Info(
        source=source, label=label, format="dataset", tool=tools.pop() if len(tools) == 1 else None,
        bytes=sum(sizes) if sizes else None, devices=tuple(devices[key] for key in sorted(devices, key=_natural)),
        ranks=tuple(sorted({rank for member in members for rank in member.ranks})),
        clock=infos[0].clock if infos else None, warnings=tuple(_warnings(members, infos)),
        coverage=sum(share * size for share, size in covered) / weight if weight else None,
        serialised=any(info.serialised for info in infos),
        facts={"files": files, "hosts": hosts, REDUCED: {"without": list(lost), "formats": formats}},
    )


def _warnings(members: Sequence[Part], infos: Sequence[Info]) -> list[str]:
    """Each warning once, with the ranks it is of."""
    ranks_by_text: dict[str, list[str]] = {}
    for member, info in zip(members, infos, strict=True):
        ordered = sorted({*member.ranks})
        first_and_last = " to ".join(str(rank) for rank in dict.fromkeys((*ordered[:1], *ordered[-1:])))
        for warning in info.warnings:
            ranks_by_text.setdefault(warning, []).append(first_and_last)
    warnings = []
    for warning, ranks in ranks_by_text.items():
        rank_list = ", ".join(ranks[:MOST]) + (f" and {len(ranks) - MOST:,} more" if len(ranks) > MOST else "")
        warnings.append(f"rank{'s' if len(ranks) > 1 else ''} {rank_list}: {warning}")
    if len({info.epoch_ns is None for info in infos}) > 1:
        warnings.append("not every rank recorded its absolute time: each keeps its own zero")
    return warnings


def _natural(name: str) -> tuple[int, str]:
    digits = "".join(char for char in name if char.isdigit())
    return int(digits) if digits and len(digits) < 19 else -1, name
