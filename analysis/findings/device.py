"""What kernels, devices and single threads could do better."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import to_builtins

from ..core import units
from ..core.names.short_name import fit_name
from ..core.text import display
from ..measured.rules import rule_sentence
from .evidence.below_peak import Below
from .evidence.kernel_times import SHORT_NS
from .evidence.measured import SlowLane
from .rule import Evidence, Rule, Said, Unchecked, rule
from .spread import Spread, share_text

LOW_CLOCKS, ENOUGH = 0.05, 10  # Share of the samples that must be low; with fewer samples the rule is not checked.
FP32 = 0.05  # Share of the kernel time, and of the steps on all devices, below which this is not mentioned.
FULL = 0.92  # From this share of its memory on an allocator starts to free and search.
STARVED = 0.1  # Share of the kernel time below which low occupancy is not mentioned.
MANY, MOST, SHARE = 200, 0.5, 0.15
"""Short kernels: at least so many launches, more than this share of all launches and of the kernel time."""
FILLED = 0.6  # Grids are too small if kernels occupy less than this share of the SMs while they run.
_NAME = 40


@rule("recorded rules", "hint", "sections", "what=rule")
def recorded_rules(evidence: Evidence) -> Said | None:
    """Findings of the profiler's own rules, in their words and with their estimates."""
    recorded = evidence.measured.recorded
    rules = [one for one in recorded.found if one.severity != "INF"] if recorded else []
    if not rules:
        return None
    others = units.counted(len(rules) - 1, "more rule has", "more rules have")
    more = f" {others} something to say." if rules[1:] else ""
    return Said(rule_sentence(rules[0]) + more, tuple(to_builtins(one) for one in rules[:12]),
                (rules[0].speedup or 0.0) * (rules[0].kernel_ns or 0))


@rule("clock drop", "problem", "metrics")
def clock_drop(evidence: Evidence) -> Said | Unchecked | None:
    """The clock of a device drops under load."""
    samples = evidence.measured.samples
    clock = samples.clock if samples is not None else None
    if clock is None or clock.samples < ENOUGH:
        return Unchecked("clocks were not sampled while kernels ran")
    if clock.low <= LOW_CLOCKS * clock.samples:
        return None
    low, high = (f"{units.number(value)} {clock.unit}".rstrip() for value in (clock.lowest, clock.high))
    part = f"low in {units.percent(100 * clock.low / clock.samples, places=0)} of the samples"
    what, usual = ("is low", f"devices of this recording reach {high}") if clock.peers else ("drops", f"usually {high}")
    device = display(clock.device or "the device", 24)
    return Said(f"The clock of {device} {what} while it works: {low} at the lowest, {usual}; {part}.", (
        {"device": clock.device, "metric": clock.metric, "low": clock.low, "samples": clock.samples},),
        short=f"The clock of {device} {what} to {low} under load" if not clock.peers else "")


@rule("fp32", "hint", "kernels",
      "name~sgemm|scudnn|ffma|simt_s|f32f32|(gemm|convolve|fprop|[dw]grad)[^<]*<(int,.)?float")
def fp32_gemms(evidence: Evidence) -> Said | Unchecked | None:
    """GEMMs and convolutions on the FP32 units of a device that has tensor cores."""
    kernels = evidence.measured.kernels
    if kernels is None:
        return Unchecked("no kernels are recorded one by one")
    steps_ns, some, types = evidence.step_ns * evidence.steps, kernels.fp32, kernels.tensor_types
    least = FP32 * max(kernels.total_ns, steps_ns * len(evidence.devices))
    if some is None or some.total_ns <= least or types == ():
        return None
    if types is None:
        return Unchecked("whether the device has tensor cores is not recorded")
    won = (evidence.measured.below_peak or {}).get("fp32")
    win_ns = None if won is None else won.win_ns
    if won is not None and win_ns is not None and not won.worth_saying(steps_ns):
        return None  # these products are off the critical path
    either = " or ".join((", ".join(types[:-1]), types[-1])) if types[1:] else types[0]
    at_best = "" if won is None or win_ns is None else f", at best {win(won, evidence.step_word)}"
    # else half of the time: tensor cores are at least twice as fast as FP32 units
    cost = some.total_ns / 2 if won is None or win_ns is None else won.cost_ns
    share = share_text(some.total_ns / kernels.total_ns)
    return Said(f"FP32 GEMMs and convolutions take {share} of the kernel time, most {fit_name(some.name, _NAME)}: "
                f"{either} would use tensor cores{at_best}.", some.rows, cost, None, win_ns,
                short=f"FP32, no tensor cores: {share} of the kernel time")


@rule("occupancy", "hint", "kernels")
def occupancy(evidence: Evidence) -> Said | Unchecked | None:
    """Low occupancy: kernels with few warps per SM, and what limits them."""
    kernels, recorded = evidence.measured.kernels, evidence.measured.recorded
    if recorded is not None and any(one.section == "Occupancy" for one in recorded.found):
        return None  # the profiler's own rule says it
    if kernels is None or not kernels.shaped:
        return Unchecked("registers and block sizes of kernels are not recorded")
    starved = kernels.starved
    if starved is None or starved.kernels.total_ns <= STARVED * kernels.total_ns:
        return None
    some = starved.kernels
    share, low = share_text(some.total_ns / kernels.total_ns), share_text(starved.occupancy)
    return Said(f"Low occupancy: in {share} of the kernel time {low} of the warps are in use, limited by "
                f"{starved.limiter}, most in {fit_name(some.name, _NAME)}.",
                ({**some.rows[0], "limiter": starved.limiter, "occupancy": starved.occupancy},),
                short=f"Low occupancy: {low} of warps in {share} of kernel time")


@rule("short kernels", "hint", "kernels", "p50_ns<5us")
def short_kernels(evidence: Evidence) -> Said | Unchecked | None:
    """Many kernels so short that launching them costs as much as running them."""
    kernels = evidence.measured.kernels
    if kernels is None:
        return Unchecked("no kernels are recorded one by one")
    short = kernels.short
    if short is None or short.count < MANY or short.count <= MOST * kernels.count:
        return None
    if short.total_ns <= SHARE * kernels.total_ns:
        return None
    many = f"{units.count(short.count)} of {units.count(kernels.count)}"
    return Said(f"Tiny kernels: {many} take under {units.duration(SHORT_NS)}, in all "
                f"{share_text(short.total_ns / kernels.total_ns)} of the kernel time, most "
                f"{fit_name(short.name, _NAME)}; fusing them or a CUDA graph would help.", short.rows,
                short=f"Tiny kernels: {many} under {units.duration(SHORT_NS)}")


@rule("small grids", "hint", "kernels")
def small_grids(evidence: Evidence) -> Said | None:
    """Kernels that leave SMs empty while they run."""
    small = []
    for device in evidence.devices:
        used, filled = device.get("utilisation"), device.get("sm_efficiency")
        if used and filled is not None and filled / used < FILLED:
            small.append((str(device["device"] or "the device"), filled / used))
    if not small:
        return None
    of = Spread(tuple(small))
    return Said(f"Small grids: kernels occupy {of.text} of the SMs of {of.who}.",
                tuple({"device": name, "filled": share} for name, share in of.shares),
                short=f"Small grids: kernels occupy {of.range} of the SMs")


@rule("memory", "hint", "metrics")
def memory_full(evidence: Evidence) -> Said | Unchecked | None:
    """Device memory is nearly full."""
    samples = evidence.measured.samples
    memory = samples.memory if samples is not None else None
    if memory is None:
        return Unchecked("memory in use or in the device is not recorded")
    if memory.used < FULL * memory.total:
        return None
    share = units.percent(100 * memory.used / memory.total, places=0)
    sizes = "" if memory.unit == "%" else f" ({units.size(memory.used)} of {units.size(memory.total)})"
    said = f"Memory of {display(memory.device or 'the device', 24)} is nearly full: {share}"
    return Said(f"{said}{sizes}.", ({"device": memory.device, "used": memory.used, "total": memory.total},), short=said)


def win(one: Below, word: str) -> str:
    """The new time the replay predicts, as a clause: 'a step takes 102 instead of 176 ms'."""
    if one.win_ns is None or one.cycle_ns is None:
        return "part of that is saved; how much, the replay cannot predict"
    what = units.each(word) if one.replayed_cycles else "the recording"
    return f"{what} takes {instead_of(one.cycle_ns - one.win_ns, one.cycle_ns)}"


def instead_of(after_ns: float, before_ns: float) -> str:
    """'32.95 instead of 35.01 ms': two times with the unit once if both share it."""
    after, before = units.duration(after_ns), units.duration(before_ns)
    return f"{after.removesuffix(before[before.rfind(' '):])} instead of {before}"


def _pattern(id: str, filter: str, pattern: str, about: str, sentence: Callable[[Below, str, str, str], str]) -> Rule:
    """The rule of a pattern of ``evidence.below_peak``; ``sentence`` gets it with its share of peak, its time and the
    saving as clauses."""

    def find(evidence: Evidence) -> Said | None:
        one = (evidence.measured.below_peak or {}).get(pattern)
        if one is None or not one.worth_saying(evidence.step_ns * evidence.steps):
            return None
        at = "" if one.of_peak is None else f" runs at {units.percent(100 * one.of_peak)} of {one.peak}"
        time = f"{units.percent(100 * one.share, places=0)} of the GPU time"
        said = sentence(one, at, time, win(one, evidence.step_word))
        return Said(said, (
            {"op": one.op, "device_ns": one.device_ns, "share": one.share, "of_peak": one.of_peak,
             "lost_ns": one.lost_ns},), one.cost_ns, None, one.win_ns, short=f"{said.partition(':')[0]}: {time}")

    find.__doc__ = about
    return rule(id, "hint", "roofline", filter)(find)


PATTERNS = (
    _pattern("eager attention", "op~bmm", "attention",
             "Unfused attention: batched GEMMs and a softmax, whose scores go through memory.",
             lambda one, at, time, win:
             f"Unfused attention: {one.op}{at} for {time}, softmax included; fused, {win} at best."),
    _pattern("unfused normalisation", "op~rsqrt", "normalisation",
             "Unfused normalisation: element-wise operators, each a pass over memory.",
             lambda one, at, time, win:
             f"Unfused normalisation: pow, mean and rsqrt take {time}; with a fused RMSNorm {win} at best."),
    _pattern("unfused optimiser", "op~_foreach_", "optimiser",
             "Unfused Adam: several passes over its parameters.",
             lambda one, at, time, win:
             f"Unfused optimiser: _foreach_ operators take {time}; with fused=True {win} at best."),
    _pattern("small products", "op~mm", "small", "GEMMs too small to fill the device.",
             lambda one, at, time, win:
             f"Small GEMMs: they take {time} and do not fill the device, {one.op}{at}; at their peak {win} at best."),
    _pattern("layout copies", "op~copy", "layout", "Copies that only change the layout of a tensor.",
             lambda one, at, time, win:
             f"Layout copies: contiguous and clone take {time}; without them {win} at best."),
)


MOST_LANES = 3  # Ranges named in one sentence.


@rule("slow lane", "hint", "ranges")
def slow_lane(evidence: Evidence) -> Said | None:
    """A range takes far longer on one thread than on the others that do the same."""
    lanes = evidence.measured.slow_lanes
    if not lanes:
        return None
    return Said(lanes_sentence(lanes), tuple(to_builtins(one) for one in lanes[:10]), lanes[0].lost_ns)


def lanes_sentence(lanes: Sequence[SlowLane]) -> str:
    """What the slow lanes take longer for, the one that loses most time first."""
    first, *others = lanes[:MOST_LANES]

    def where(one: SlowLane) -> str:
        if one.tid is None and one.rank is not None:
            return f"rank {one.rank}"
        rank = f", rank {one.rank}" if one.rank is not None else ""
        return f"thread {one.tid} of process {one.pid}{rank}"

    usual = units.duration(first.usual_ns)
    calls = "" if first.calls == first.usual_calls else (
        f" in {units.counted(first.calls, 'call', 'calls')}, not {units.count(first.usual_calls)}")
    more = "".join(f"; {display(one.name, 40)} {one.ns / one.usual_ns:.2f}× on {where(one)}" for one in others)
    like = "ranks" if first.tid is None else "threads"
    return (
        f"{display(first.name, 40)} takes {first.ns / first.usual_ns:.2f}× as long on {where(first)} as on the median "
        f"of {first.lanes} such {like}: {units.duration(first.ns)}, not {usual}{calls}{more}.")
