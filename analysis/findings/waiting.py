"""Why devices wait, and what that costs."""

from __future__ import annotations

import re

from ..contract.changes import GRAPH, Change, exactly
from ..core import units
from ..core.distribution import LEAST_FOR_OUTLIERS
from ..core.names.short_name import fit_name, short_name
from ..core.text import display
from ..idle.causes import function
from ..idle.scope import Site
from .evidence.outside import MODULE_NS, Stretch
from .evidence.waits import Waits
from .rule import BLAME, IDLE, NO_CAUSES, WAITING, Evidence, Said, Unchecked, rule

ALLOCATING = 0.02  # Share of a device's window below which allocation is not mentioned.
PAGEABLE = 0.01  # The same for copies of pageable memory.
BEHIND = 0.15  # Share of a device's window in which it must wait for launches to be mentioned...
BOUND = 1 / 3  # ...and for the host to be what bounds it: a device that is busy most of the time is not host-bound.
LAUNCH_NS = 100_000
"""If gaps are shorter than this on average, the cost is launching; longer gaps are other work of the host."""
_LAUNCHES = re.compile(r"^(cu|hip)\w*Launch")


@rule("input", "problem", "idle", "cause=input")
def input_data(evidence: Evidence) -> Said | Unchecked | None:
    """Input-bound: the host waits for input data."""
    waits = evidence.measured.waits
    if waits is not None and evidence.doubt is not None:
        return Unchecked(evidence.doubt)
    own_ns = None
    if waits is not None and waits.share(waits.input.idle_ns) > WAITING:
        waited, of_idle = float(waits.input.idle_ns), float(waits.idle_ns)
        rows, cost = waits.input.rows, waited
        who, part, own_ns = waits.who, waits.of(waits.input.idle_ns), waits.own_ns
    else:  # no gaps exist before a device's first and after its last activity, but input can be late there too
        late, of_idle = evidence.times.get("DataLoader", 0.0), evidence.idle_ns
        if not evidence.step_ns or late <= WAITING * evidence.step_ns:
            return None
        waited, rows, cost = late, (), late * max(evidence.steps_each, 1)
        who, part = "the host", evidence.part.of(late)
    what = "Input-bound" if waited > BLAME * of_idle else "Input is late"
    return Said(f"{what}: {who} waits {part} for the DataLoader.", rows, cost, "idle:input=0",
                short=f"{what}: DataLoader, {part}", of_ns=own_ns)


@rule("sync", "problem", "idle", "drained_by~. !cause=input")
def drained(evidence: Evidence) -> Said | Unchecked | None:
    """Synchronisation: the host waits for the device before it launches again, so the device's queue runs empty."""
    waits = evidence.attributed
    if isinstance(waits, Unchecked) or waits.share(waits.drained.idle_ns) <= WAITING:
        return waits if isinstance(waits, Unchecked) else None
    first = next(iter(waits.drained.sites), None)
    where = "" if first is None or not first.who else f", most in {display(first.who, 112)}"
    part = waits.of(waits.drained.idle_ns)
    return Said(f"Synchronisation empties the queue: {waits.who} idles {part} because the host waited for it{where}.",
                waits.drained.rows, waits.drained.idle_ns, "sync:=0", short=f"Synchronisation: idle {part}",
                of_ns=waits.own_ns)


@rule("host", "problem", "idle", "!cause=input")
def host_bound(evidence: Evidence) -> Said | Unchecked | None:
    """Devices wait because the host does not launch in time: launch-bound or host-bound, and where in the code."""
    waits = evidence.attributed
    if isinstance(waits, Unchecked):
        return waits
    behind = waits.behind
    if waits.share(behind.idle_ns) <= BEHIND:
        return None
    by_launches = behind.idle_ns < LAUNCH_NS * behind.gaps
    bound = "" if waits.share(behind.idle_ns) < BOUND else "Launch-bound: " if by_launches else "Host-bound: "
    part = waits.of(behind.idle_ns)
    return Said(f"{bound}{waits.who} waits {part} for the next launch{_where(waits)}{_modules(waits)}.",
                behind.rows, behind.idle_ns, GRAPH if by_launches else None, of_ns=waits.own_ns)


def _where(waits: Waits) -> str:
    """The operator before which most of it is, or the wait after which; a launch call is no answer."""
    behind, emptied = waits.behind, waits.emptied
    if behind.sites and not _LAUNCHES.search(behind.sites[0].who or ""):
        return _place(behind.sites[0])
    if emptied.sites and 2 * emptied.sites[0].idle_ns > behind.idle_ns:
        return f", most after {display(emptied.sites[0].who or '', 144)} emptied the queue"
    return ""


def _modules(waits: Waits) -> str:
    """The time in launch calls so long that they must have loaded modules, if that is most of it."""
    behind, launching = waits.behind, waits.causes.get("launch", 0)
    site = behind.sites[0] if behind.sites else None
    if site is None or launching <= behind.idle_ns / 2 or site.idle_ns < MODULE_NS * site.gaps:
        return ""
    share = units.percent(100 * launching / behind.idle_ns, places=0)
    return f"; {share} of that the driver loads modules, at the first call of each kernel"


def _place(site: Site) -> str:
    line = f"at {short_name(site.frame)}, " if site.frame and site.who else ""
    return ", most " + display(f"{line}before {site.who or ''}", 144)


@rule("queued", "hint", "idle", "cause=queued")
def queued(evidence: Evidence) -> Said | None:
    """Queued work that does not start: the device waits for an event, another stream or a peer."""
    waits = evidence.attributed
    if isinstance(waits, Unchecked) or waits.share(waits.idle_ns) <= IDLE:
        return None
    if waits.queued.idle_ns <= BLAME * waits.idle_ns:
        return None
    first = next(iter(waits.queued.sites), None)
    where = "" if first is None or not first.who else f" (before {fit_name(first.who, 40)})"
    part = waits.of(waits.queued.idle_ns)
    if first is not None and waits.begins_amid:
        part = units.duration(first.idle_ns)
        said = (f"{waits.who} shows nothing for the first {part} although work is queued{where}: it probably still "
                "runs work from before the recording.")
        return Said(said, waits.queued.rows, waits.queued.idle_ns,
                    short=f"Nothing on {waits.who} for the first {part}: earlier work", of_ns=waits.own_ns)
    once = first is not None and first.gaps == 1  # as if the recording began amid work
    by = "another stream, a peer or work from before the recording" if once else "another stream or a peer"
    return Said(f"{waits.who} runs nothing for {part} although work is queued{where}: it probably waits for an event, "
                f"{by}.", waits.queued.rows, waits.queued.idle_ns, short=f"Queued work is blocked: {part}",
                of_ns=waits.own_ns)


@rule("allocation", "problem", "idle", "cause=allocation")
def allocation(evidence: Evidence) -> Said | Unchecked | None:
    """Devices wait while memory is allocated or freed, or code is loaded."""
    waits = evidence.attributed
    if isinstance(waits, Unchecked) or waits.share(waits.allocation.idle_ns) <= ALLOCATING:
        return waits if isinstance(waits, Unchecked) else None
    calls = ", ".join(f"{units.count(count)} × {display(name, 40)}" for name, count in waits.allocations)
    part = waits.of(waits.allocation.idle_ns)
    return Said(f"Allocation: {waits.who} waits {part} while memory is allocated or freed or code is loaded"
                f"{f' ({calls})' if calls else ''}.",
                tuple({"call": name, "count": count} for name, count in waits.allocations),
                waits.allocation.idle_ns, "idle:allocation=0", short=f"Allocation: {part} on allocating, loading",
                of_ns=waits.own_ns)


@rule("capture", "hint", "calls", "name~Capture")
def capture(evidence: Evidence) -> Said | None:
    """A CUDA or HIP graph is being captured: what is launched then does not run, so idle time says nothing."""
    waits = evidence.measured.waits
    if waits is None or waits.capture is None:
        return None
    part = waits.of(waits.idle_ns)
    return Said(f"Graph capture, not a run: {waits.capture}. {waits.who} idles {part} meanwhile: no verdict.",
                short="Graph capture, not a run: kernels are only recorded")


@rule("unexplained", "hint", "launches")
def unexplained(evidence: Evidence) -> Said | None:
    """Devices are idle, and nothing in the recording explains it."""
    waits = evidence.measured.waits
    if waits is not None:
        why = waits.doubt if waits.share(waits.idle_ns) > IDLE and not evidence.clocks_disagree else None
        if waits.capture:
            return None
        part = waits.of(waits.idle_ns)
        return None if why is None else Said(f"{waits.who} idles {part}; {why}.", short=f"{waits.who} idles {part}")
    idle, other = evidence.idle_ns, evidence.times.get("Other", 0.0)
    if not evidence.devices or idle <= IDLE * evidence.step_ns or other <= BLAME * idle:
        return None
    seen = any(name in evidence.times for name in ("Runtime", "CPU Exec"))
    why = "no recorded operator or call shows why" if seen else "why was not recorded (no host calls)"
    part = evidence.part.of(other)
    return Said(f"The devices idle {part}; {why}.", short=f"The devices idle {part}")


@rule("blocking copies", "problem", "calls", "purpose=copy sync_ns>0")
def blocking_copies(evidence: Evidence) -> Said | None:
    """Copies that block the host and so let the device run idle: the call returns when all queued work is done.

    If the device has work all the time, such a copy costs nothing and is not mentioned. Its cost is idle time, which
    other rules report as well; this one says what to change."""
    some, waits = evidence.measured.blocking, evidence.attributed
    if some is None or isinstance(waits, Unchecked) or some.host_ns <= WAITING * some.window_ns:
        return None
    idle_ns = waits.drained.idle_ns + waits.emptied.idle_ns
    if waits.share(idle_ns) <= WAITING:
        return None
    kind = "pageable " if some.pageable == some.count else ""
    size = f", {units.size(some.bytes)}" if some.bytes else ""
    advice = "Pinned memory and non_blocking=True let" if some.pageable else "Asynchronous copies let"
    copies = units.counted(some.count, f"{kind}copy", f"{kind}copies")
    part, call = evidence.each(some.host_ns, some.window_ns), display(function(some.call), 40)
    until = "until the device is done" if some.queued_ns > some.copy_ns else "until the copy is done"
    return Said(f"The host waits {part} in {call} {until} ({copies}{size}). {advice} it launch on.",
                some.rows, min(some.host_ns, idle_ns),
                "sync:Memcpy|StreamSynchronize=0",  # without StreamSynchronize the wait would only move there
                short=f"Copies block the host: {part}")


@rule("pageable", "hint", "kernels", "name~Pageable")
def pageable(evidence: Evidence) -> Said | Unchecked | None:
    """Copies from or to pageable memory: they are staged, block the host, and overlap with nothing."""
    copies = evidence.measured.copies
    if copies is None:
        return Unchecked(NO_CAUSES) if evidence.measured.waits is None else None
    if not copies.placed:
        return Unchecked("the recording does not say which memory copies use")
    some = copies.pageable
    if some.exposed_ns <= PAGEABLE * copies.window_ns:
        return None
    size = f" ({units.size(some.bytes)})" if some.bytes else ""
    part = evidence.each(some.exposed_ns, copies.window_ns)
    what = f"{units.counted(some.count, 'copy', 'copies')} of pageable memory"
    return Said(f"{what}{size} take {part} on {copies.who} while no kernel runs; pinned memory lets kernels overlap "
                "them.", some.rows, some.exposed_ns, "copy:Pageable=0", short=f"{what}: {part}")


@rule("copies", "problem", "kernels", "kind~mem")
def copies(evidence: Evidence) -> Said | Unchecked | None:
    """Copies and memsets not overlapped with kernels, and whether kernels run long enough to hide them."""
    copies = evidence.measured.copies
    if copies is None:
        copying = evidence.times.get("Memcpy")
        if copying is None or not evidence.step_ns:
            return Unchecked("no copies with times are recorded")
        if copying <= WAITING * evidence.step_ns:
            return None
        return Said(f"Copies that no kernel overlaps take {evidence.part.of(copying)}.", (),
                    copying * max(evidence.steps_each, 1), Change("copy").text)
    exposed = copies.other.exposed_ns
    if exposed <= WAITING * copies.window_ns:
        return None
    way = "on another stream they would overlap"
    if copies.work_ns < exposed:
        work = units.duration(copies.work_ns)
        if evidence.in_steps:
            work = f"{units.duration(copies.work_ns / max(1, evidence.steps_each))} {units.each(evidence.step_word)}"
        way = f"kernels run only {work}, too short to hide them: copy less"
    # not those within the device or from pageable memory, which the finding is not about
    change = Change("copy", "|".join(map(exactly, copies.other.names))).text
    part = evidence.each(exposed, copies.window_ns)
    return Said(f"Copies, most {fit_name(copies.other.name or '', 40)}, take {part} on {copies.who} while no kernel "
                f"runs; {way}.", copies.other.rows, exposed, change, short=f"Copies that no kernel overlaps: {part}")


@rule("communication", "problem", "kernels")
def communication(evidence: Evidence) -> Said | Unchecked | None:
    """Exposed communication: collectives not overlapped with computation on the same device."""
    devices = tuple(one for one in evidence.communication if one.comm_ns)
    if not evidence.communication and any(
        row.get("kind") == "collective" and (row.get("share") or 0.0) > WAITING for row in evidence.top
    ):
        return Unchecked("collectives are not recorded one by one")
    most = max(devices, key=lambda one: one.exposed_ns, default=None)
    if not evidence.step_ns or most is None or _exposed_ns(evidence) <= WAITING * evidence.step_ns:
        return None
    if not evidence.times.get("Kernel"):
        return Unchecked("no compute kernels are recorded, only collectives")
    device = display(most.device or "one device", 24)
    ns, who, where = _exposed_ns(evidence), f"{device} waits", ""
    if devices[1:]:
        who = f"{len(evidence.communication):,} devices wait"
        where = f" (mean; most on {device}, {units.duration(most.exposed_ns)})"
    likely = " (communication by the shape of its stream, no name says so)" if most.shape else ""
    part = evidence.part.of(ns)
    return Said(
        f"Exposed communication: {who} {part} for communication that no kernel overlaps{where}{likely}.",
        tuple({"device": one.device, "rank": one.rank, "comm_ns": one.comm_ns, "exposed_ns": one.exposed_ns}
              for one in devices), ns * evidence.steps_each, "collective:=0", hint=most.shape,
        short=f"Exposed communication: {part.removesuffix(f' {units.each(evidence.step_word)}')}")


def _exposed_ns(evidence: Evidence) -> float:
    """Exposed communication per step, ns: of the device that communicates, of several the mean, because a step of one
    is not the mean step of all."""
    devices = [one for one in evidence.communication if one.comm_ns]
    every = evidence.communication if devices[1:] else devices
    return sum(one.exposed_ns for one in every) / max(1, len(every))


@rule("straggler", "problem", "ranks")
def straggler(evidence: Evidence) -> Said | None:
    """One rank of a job comes last at collectives more often than chance, and the others wait for it."""
    late = evidence.measured.straggler
    if late is None or not evidence.step_ns:
        return None
    each = late.caused_ns / late.ranks  # the account and the exposed time beside it are means over the ranks
    part = evidence.each(each, evidence.step_ns * max(1, evidence.steps_each))
    who = display(late.who, 40)
    begins = (f", {units.duration(late.begin_ns)} of it because it begins its {evidence.step_word}s later"
              if 2 * late.begin_ns > late.caused_ns else "")
    once = "; one step each is no proof that it is always so" if evidence.steps_each == 1 else ""
    shared = units.counted(late.matched, "collective", "collectives")
    return Said(
        f"Straggler: {who} comes last at {units.count(late.times)} of {shared}: a rank waits {part} for it (mean), all "
        f"together {units.duration(late.caused_ns)}{begins}{once}.",
        (), each, short=f"Straggler: {display(late.name, 16)}, the others wait {units.duration(late.caused_ns)} in all")


@rule("overlap", "fact", "collectives")
def overlap(evidence: Evidence) -> Said | None:
    """Communication that computation hides: its time, and the share of it that is overlapped."""
    devices = tuple(one for one in evidence.communication if one.comm_ns)
    most = max(devices, key=lambda one: one.comm_ns, default=None)
    if not evidence.step_ns or most is None or most.overlap is None or 2 * most.exposed_ns > most.comm_ns or (
            _exposed_ns(evidence) > WAITING * evidence.step_ns):
        return None
    if most.comm_ns <= WAITING * evidence.step_ns or not evidence.times.get("Kernel"):
        return None
    where = f" on {display(most.device or 'one device', 24)}" if devices[1:] else ""
    likely = " (communication by the shape of its stream, no name says so)" if most.shape else ""
    part = evidence.part.of(most.comm_ns)
    return Said(
        f"Communication takes {part}{where}; kernels overlap all but {units.duration(most.exposed_ns)} of it{likely}.",
        tuple({"device": one.device, "rank": one.rank, "comm_ns": one.comm_ns, "exposed_ns": one.exposed_ns}
              for one in devices), hint=most.shape, short=f"Communication: {part}, overlapped")


@rule("slow cycles", "problem", "cycles", "outlier=true")
def slow_cycles(evidence: Evidence) -> Said | Unchecked | None:
    """Outlier cycles, as marked in the list of cycles."""
    cycles, word = evidence.measured.cycles, evidence.step_word
    if cycles is None:
        return Unchecked(evidence.measured.no_cycles)
    if cycles.count < LEAST_FOR_OUTLIERS:
        return Unchecked(f"fewer than {LEAST_FOR_OUTLIERS} cycles")
    if (slow := cycles.slow) is None:
        return None
    many = len(slow.cycles)
    are = "is an outlier:" if many == 1 else "are outliers, the longest"
    said = f"{many} of {cycles.count} {word}s {are} #{slow.longest}, {units.duration(slow.longest_ns)}"
    return Said(f"{said} (median {units.duration(cycles.median_ns)}).",
                tuple({"cycle": one} for one in slow.cycles[:10]), slow.above_ns, short=said)


@rule("clocks", "problem", "launches")
def clocks(evidence: Evidence) -> Said | None:
    """Device activities that begin before their launch call: host and device clocks do not agree."""
    if not evidence.clocks_disagree:
        return None
    early, launched = units.count(evidence.early), units.count(evidence.launched)
    why = f"clocks of host and device disagree: {early} of {launched} device activities begin before their launch"
    waits = evidence.measured.waits
    cost = None if waits is None else waits.idle_ns
    if waits is None or waits.share(waits.idle_ns) <= IDLE:
        return Said(f"The {why}, so the causes of idle time are unknown.", cost_ns=cost,
                    short="Clocks of host and device disagree")
    part = waits.of(waits.idle_ns)
    return Said(f"{waits.who} idles {part}; for what is unknown, because the {why}.", cost_ns=cost,
                short=f"Clocks disagree: why it idles {part} is open")


@rule("start-up", "fact", "timeline")
def start_up(evidence: Evidence) -> Said | Unchecked | None:
    """Time before the first step and after the last one, which the other findings do not cover."""
    outside = evidence.measured.outside
    if outside is None or isinstance(outside, Unchecked):
        return outside
    what = "whole step" if outside.of_steps else "device activity"
    parts = [
        _stretch(stretch, f"{where} {what}")
        for stretch, where in ((outside.before, "before the first"), (outside.after, "after the last"))
        if stretch is not None
    ]
    return Said(f"{'Outside the steps' if outside.of_steps else 'No device work'}: {'; '.join(parts)}.")


def _stretch(stretch: Stretch, where: str) -> str:
    text = f"{units.duration(stretch.span_ns)} {where}"
    longest = stretch.longest
    if longest is None:
        return text
    what = "one" if longest.count == 1 else f"{units.count(longest.count)} calls of"
    loaded = ": modules were loaded" if longest.loads_modules else ""
    name = display(short_name(function(longest.name)), 48)
    return f"{text}, {units.duration(longest.total_ns)} of it {what} {name}{loaded}"


@rule("warm-up", "fact", "cycles", "warm_up=true")
def warm_up(evidence: Evidence) -> Said | Unchecked | None:
    """Warm-up cycles, which make means longer than the steady state."""
    cycles, word = evidence.measured.cycles, evidence.step_word
    if cycles is None:
        return Unchecked(evidence.measured.no_cycles)
    if (warm := cycles.warm_up) is None:
        return None
    many = len(warm.cycles)
    first = f"The first {word} is" if many == 1 else f"{many} {word}s at the start are"
    return Said(f"{first} warm-up: up to {units.duration(warm.longest_ns)}, where the median is "
                f"{units.duration(cycles.median_ns)}.", tuple({"cycle": one} for one in warm.cycles[:10]))
