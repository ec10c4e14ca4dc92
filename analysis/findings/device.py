"""What kernels and devices could do better."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import to_builtins

from ..core import units
from ..core.names.short_name import fit_name
from ..core.text import display
from ..measured.rules import rule_sentence
from .evidence.below_peak import Below
from .evidence.kernel_times import SHORT_NS
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
                (rules[0].speedup or 0.0) * rules[0].kernel_ns)


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
        {"device": clock.device, "metric": clock.metric, "low": clock.low, "samples": clock.samples},))


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
    and_wins = "" if won is None or win_ns is None else f" and {win(won, evidence.step_word)}"
    # else half of the time: tensor cores are at least twice as fast as FP32 units
    cost = some.total_ns / 2 if won is None or win_ns is None else won.cost_ns
    return Said(f"FP32 GEMMs and convolutions take {share_text(some.total_ns / kernels.total_ns)} of the kernel time "
                f"without tensor cores, most {fit_name(some.name, _NAME)} ({units.duration(some.name_ns)}): {either} "
                f"would use them{and_wins}.", some.rows, cost, None, win_ns)


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
    return Said(f"Low occupancy, {share_text(starved.occupancy)}, in {share_text(some.total_ns / kernels.total_ns)} of "
                f"the kernel time, limited by {starved.limiter}; most in {fit_name(some.name, _NAME)} "
                f"({units.duration(some.name_ns)}).",
                ({**some.rows[0], "limiter": starved.limiter, "occupancy": starved.occupancy},))


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
    return Said(f"Tiny kernels: {units.count(short.count)} of {units.count(kernels.count)} take under "
                f"{units.duration(SHORT_NS)} each, {share_text(short.total_ns / kernels.total_ns)} of the kernel time "
                f"in all, most {fit_name(short.name, _NAME)}; fusing them or a CUDA graph would help.", short.rows)


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
    return Said(f"On {of.who} kernels occupy {of.text} of the SMs: grids too small.",
                tuple({"device": name, "filled": share} for name, share in of.shares))


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
    return Said(f"Memory of {display(memory.device or 'the device', 24)} is nearly full: {share}{sizes}.",
                ({"device": memory.device, "used": memory.used, "total": memory.total},))


def win(one: Below, word: str) -> str:
    """The saving the replay predicts, as a clause."""
    if one.win_ns is None or one.cycle_ns is None:
        return "would save part of that; the replay cannot predict how much"
    of = f"per {word}" if one.replayed_cycles else "in the whole recording"
    return f"would win at most {units.duration(one.win_ns)} of {units.duration(one.cycle_ns)} {of}"


def _pattern(id: str, filter: str, pattern: str, about: str, sentence: Callable[[Below, str, str, str], str]) -> Rule:
    """The rule of a pattern of ``evidence.below_peak``; ``sentence`` gets it with its share of peak, its time and the
    saving as clauses."""

    def find(evidence: Evidence) -> Said | None:
        one = (evidence.measured.below_peak or {}).get(pattern)
        if one is None or not one.worth_saying(evidence.step_ns * evidence.steps):
            return None
        at = "" if one.of_peak is None else f" runs at {units.percent(100 * one.of_peak)} of {one.peak}"
        time = f"{units.percent(100 * one.share, places=0)} of the device time"
        return Said(sentence(one, at, time, win(one, evidence.step_word)), (
            {"op": one.op, "device_ns": one.device_ns, "share": one.share, "of_peak": one.of_peak,
             "lost_ns": one.lost_ns},), one.cost_ns, None, one.win_ns)

    find.__doc__ = about
    return rule(id, "hint", "roofline", filter)(find)


PATTERNS = (
    _pattern("eager attention", "op~bmm", "attention",
             "Unfused attention: batched GEMMs and a softmax, whose scores go through memory.",
             lambda one, at, time, win:
             f"Eager attention: {one.op}{at} for {time}, softmax included; fused it {win}."),
    _pattern("unfused normalisation", "op~rsqrt", "normalisation",
             "Unfused normalisation: element-wise operators, each a pass over memory.",
             lambda one, at, time, win:
             f"Unfused normalisation: pow, mean and rsqrt take {time}; a fused RMSNorm {win}."),
    _pattern("unfused optimiser", "op~_foreach_", "optimiser",
             "Unfused Adam: several passes over its parameters.",
             lambda one, at, time, win:
             f"Unfused optimiser: _foreach_ operators take {time}; fused=True {win}."),
    _pattern("small products", "op~mm", "small", "GEMMs too small to fill the device.",
             lambda one, at, time, win:
             f"GEMMs too small to fill the device take {time}: {one.op}{at}; at their peak they {win}."),
    _pattern("layout copies", "op~copy", "layout", "Copies that only change the layout of a tensor.",
             lambda one, at, time, win:
             f"Copies that keep type and shape take {time}: removing them {win}."),
)
