"""Devices wait because the host does not launch in time: launch-bound or host-bound, and where in the code."""

from __future__ import annotations

import re

from msgspec import Struct

from ...contract.changes import GRAPH
from ...core import units
from ...core.names.short_name import short_name
from ...core.text import display
from ...idle.scope import Site
from ..evidence.outside import MODULE_NS
from ..evidence.waits import Waits
from ..rule import Evidence, Rule, Unchecked

BEHIND = 0.15  # Share of a device's window in which it must wait for launches to be mentioned.
_NAME = 144
_LAUNCHES = re.compile(r"^(cu|hip)\w*Launch")
LAUNCH_NS = 100_000
"""If gaps are shorter than this on average, the cost is launching; longer gaps are other work of the host."""


class HostBehind(Struct, frozen=True):
    """The waits of a device whose gaps come from the host's pace, not from synchronisation."""

    waits: Waits
    median_kernel_ns: float | None

    @property
    def by_launches(self) -> bool:
        """Whether the cost is launching, not other work of the host."""
        return self.waits.behind.idle_ns < LAUNCH_NS * self.waits.behind.gaps


def _find(evidence: Evidence) -> HostBehind | Unchecked | None:
    waits = evidence.attributed
    if isinstance(waits, Unchecked):
        return waits
    return HostBehind(waits, evidence.median_kernel_ns) if waits.share(waits.behind.idle_ns) > BEHIND else None


def _sentence(host: HostBehind) -> str:
    waits, behind = host.waits, host.waits.behind
    median = host.median_kernel_ns
    short = "" if median is None else f", median kernel {units.duration(median)}"
    bound = "Launch-bound" if host.by_launches else "Host-bound"
    return (f"{bound}: {waits.who} waits {waits.of(behind.idle_ns)} for the next launch "
            f"({waits.of_idle(behind.idle_ns)}){short}{_where(waits)}{_modules(waits)}.")


def _where(waits: Waits) -> str:
    """The operator before which most of it is, or the wait after which; a launch call is no answer."""
    behind, emptied = waits.behind, waits.emptied
    if behind.sites and not _LAUNCHES.search(behind.sites[0].who or ""):
        return behind.most(_place)
    if emptied.sites and 2 * emptied.sites[0].idle_ns > behind.idle_ns:
        return emptied.most(lambda site: f"; most after {display(site.who or '', _NAME)} emptied the queue")
    return ""


def _modules(waits: Waits) -> str:
    """The time in launch calls so long that they must have loaded modules, if that is most of it."""
    behind, launching = waits.behind, waits.causes.get("launch", 0)
    site = behind.sites[0] if behind.sites else None
    if site is None or launching <= behind.idle_ns / 2 or site.idle_ns < MODULE_NS * site.gaps:
        return ""
    return f"; {units.duration(launching)} of it inside launch calls that loaded modules"


def _place(site: Site) -> str:
    line = f"at {short_name(site.frame)}, " if site.frame and site.who else ""
    return "; most " + display(f"{line}before {site.who or ''}", _NAME)


RULE = Rule(
    "host", "problem", _find, _sentence, rows=lambda host: host.waits.behind.rows,
    cost_ns=lambda host: host.waits.behind.idle_ns, view="idle", filter="!cause=input",
    change=lambda host: GRAPH if host.by_launches else None,
)
