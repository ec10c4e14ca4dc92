"""Triage: a one-minute report for a colleague: findings, idle time by cause, top kernels, and what changed.

The rows are the findings, the costliest first. The page adds the idle time by cause, the top kernels with their callers
and, for two runs, the summary of the diff.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
from msgspec.structs import replace

from ...loaders.schema import is_work
from ...loaders.trace import REDUCED, Trace
from ..contract.changes import parse
from ..contract.column import Column
from ..contract.options import SIDES, Options, Scope, Side
from ..contract.sections import PageSection
from ..contract.view import Answer, CannotAnswer, Runs, ScopeRefused, View
from ..core import units
from ..core.names.short_name import fit_name, short_name
from ..cycles.scope import scoped
from ..cycles.whole import steps_in_scope
from ..findings.evidence.measured import notices_of
from ..findings.rule import Finding
from ..idle.attribution import DeviceIdle, idle_of
from ..idle.facts import cause_shares, headline_devices
from ..kernels.launch_index import CALLERS, ways, with_callers
from ..memory.findings import memory_findings
from ..memory.peaks import memory_of
from ..metrics.findings import counter_findings
from ..overview.sources import overview_of
from ..table.export.state import repeats
from ..table.table import Table

_NAME = 64
FEW = 5  # Most findings of each run on the page of a pair.
KERNELS, DEVICES, CAUSES = 5, 8, 4
"""Most rows of kernels, rows of devices, and causes per device on the page."""
COLUMNS = (
    Column("run", "run", "text", "A or B; empty for one run", width=3, order=0, role="where"),
    Column("severity", "kind", "text", "problem: time is lost; hint: worth a look; fact: context for the rest; "
           "unchecked: the recording lacks what the rule needs", width=9, order=1),
    Column("rule", "rule", "text", "rule that produced it", width=14, order=2),
    Column("time_to_win_ns", "would save", "ns", "saved per cycle, predicted by a replay of the run; null without one",
           width=10, order=2, role="time", pairs="alone"),
    Column("finding", "finding", "text", "the finding", width=140, order=0, elastic=True, pinned=True, role="label"),
    Column("look", "look", "text", "view that shows it", width=8, order=1),
    Column("filter", "filter", "text", "filter to set in that view", width=18, order=3),
)
_DTYPES = {"time_to_win_ns": pl.Float64()}


def build(runs: Runs, options: Options) -> Answer:
    """The findings of one run or two as rows, and the page."""
    rows: list[tuple[Any, ...]] = []
    sections: list[PageSection] = []
    facts: dict[str, Any] = {}
    summary: list[str] = []
    notes: list[str] = []
    weak: list[str] = []
    if len(runs) == 2:
        rows, sections, summary, weak, facts = _changes(runs, options)
    alone: list[PageSection] = []
    for run, side in zip(runs, SIDES, strict=False):
        prefix = f"{side.upper()} alone: " if len(runs) == 2 else ""
        try:
            overview = overview_of(run, options, side)
        except ScopeRefused:
            raise
        except CannotAnswer as why:
            findings = _without_time(run)
            if not findings:
                notes.append(f"{side.upper()}: {why}" if prefix else str(why))
                continue
            facts[side] = {"rules": findings, "unchecked": None}
            rows += _as_rows(findings, side)
            alone.append(_findings(findings, None, prefix))
            continue
        about = f"{run.info.label}: {overview.headline}"
        if not prefix:
            summary.append(about)
        findings = _predicted(run, options, side, overview.facts["rules"])
        facts[side] = {"rules": findings, "unchecked": overview.facts["unchecked"]}
        rows += _as_rows(findings, side)
        alone += [
            _findings([one for one in findings if not repeats(one["sentence"], [about])],
                      overview.facts["unchecked"], prefix, FEW if prefix else None, about if prefix else None),
            *(_idle(run, options, side, prefix) if not prefix else ()), *_kernels(run, options, side, prefix),
        ]
        notes += [f"{side.upper()}: {note}" if prefix else note for note in overview.notes[: 1 if prefix else None]]
    if len(runs) == 2 and (weak or notes):
        sections.append(PageSection("What may weaken this", (*weak, *notes)))
    sections += alone
    if not rows and len(runs) == 1:
        raise CannotAnswer(notes[0] if notes else "Nothing was found.")
    names = [column.name for column in COLUMNS]
    frame = pl.DataFrame(rows, schema={name: _DTYPES.get(name, pl.String()) for name in names}, orient="row")
    if len(runs) == 1:
        facts, frame = facts.get("a", {}), frame.with_columns(run=pl.lit(None, pl.String()))
    return Answer(frame.lazy(), facts, tuple(summary), tuple(notes), page=tuple(sections))


def _as_rows(findings: list[dict[str, Any]], side: Side) -> list[tuple[Any, ...]]:
    """One row per finding; rules left unchecked for the same reason share a row."""
    reasons: dict[str, list[str]] = {}
    for one in findings:
        if one["severity"] == "unchecked":
            reasons.setdefault(one["sentence"], []).append(one["rule"])
    rows = [(one["severity"], one["rule"], one["time_to_win_ns"], one["sentence"], one["view"], one["filter"])
            for one in findings if one["severity"] != "unchecked"]
    rows += [("unchecked", ", ".join(rules), None, f"Not checked: {', '.join(rules)} ({reason}).", None, None)
             for reason, rules in reasons.items()]
    return [(side.upper(), *one) for one in rows]


def _without_time(run: Trace) -> list[dict[str, Any]]:
    """Findings of a recording that has no activities or calls: those on memory and counters, in device order."""
    findings = [Finding(one["rule"], "problem", one["sentence"], view=one["view"]) for one in notices_of(run)]
    findings += [Finding(one.rule, "problem", one.sentence, view="memory") for one in memory_findings(memory_of(run))]
    findings += [Finding(one.rule, "problem", one.sentence, view="metrics") for one in counter_findings(run)]
    if not findings and run.has("metrics"):
        findings = [Finding("counters", "fact", "Counters show no fault: devices busy, memory free, clocks and power "
                            "normal.", view="metrics")]
    return [one.fact for one in findings]


def _predicted(run: Trace, options: Options, side: Side, findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The findings with the saving per cycle that a replay of the whole run predicts for removing their cause."""
    from ..replay.replayed import MOST_REPLAYED, replay_of

    if options.scope(side) != Scope() or run.kernels.select(pl.len()).collect().item() > MOST_REPLAYED:
        return findings

    replayed = replay_of(run, options)
    if replayed.model is None or not replayed.predicts:
        return findings

    def saved(change: str | None) -> int | None:
        return None if change is None else max(0, round(replayed.saved_ns(parse(change))))

    return _largest_first([
        one if one["change"] is None else one | {"time_to_win_ns": saved(one["change"])} for one in findings])


def _largest_first(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Findings with a predicted saving sorted by it within the positions they occupy; the others keep theirs."""
    predicted = [one for one in findings if one["time_to_win_ns"] is not None]
    ordered = iter(sorted(predicted, key=lambda one: -one["time_to_win_ns"]))
    return [one if one["time_to_win_ns"] is None else next(ordered) for one in findings]


def _saves(finding: dict[str, Any]) -> str:
    return units.MISSING if finding["time_to_win_ns"] is None else units.duration(finding["time_to_win_ns"])


def _findings(
    findings: list[dict[str, Any]], unchecked: str | None, prefix: str, most: int | None = None,
    about: str | None = None,
) -> PageSection:
    """The findings that cost time as a table, the facts as sentences; on the page of a pair ``most`` of the former, one
    of the latter and, first, what the run is (``about``)."""
    costly = [one for one in findings if one["severity"] in ("problem", "hint")][:most]
    predicted = any(one["time_to_win_ns"] is not None for one in costly)
    rows = tuple(
        (str(number), one["sentence"], *([_saves(one)] if predicted else ()),
         " ".join(filter(None, (one["view"], one["filter"])))) for number, one in enumerate(costly, 1)
    )
    facts = tuple(one["sentence"] for one in findings if one["severity"] == "fact")[:most and 1]
    unchecked = None if most else unchecked
    nothing = () if rows else ("No rule found anything that costs time.",)
    return PageSection(
        _title(prefix, "Findings"),
        (*((about,) if about else ()), *nothing, *facts, *((unchecked,) if unchecked else ())),
        ("#", "finding", *(("would save",) if predicted else ()), "look"), rows, ("look",),
    )


def _title(prefix: str, title: str) -> str:
    return f"{prefix}{title.lower()}" if prefix else title


def _idle(run: Trace, options: Options, side: Side, prefix: str) -> list[PageSection]:
    piece = scoped(run, options, side)
    steps = None if REDUCED in run.info.facts else steps_in_scope(run, options, side)
    idle = idle_of(run, piece, steps) if piece.has("kernels") else None
    if idle is None:
        return []
    where = " in steps" if steps is not None and options.scope(side).cycle is None else ""
    most = sorted(headline_devices(idle), key=lambda device: -device.idle_ns)
    rows = tuple(_device(device) for device in most[:DEVICES])
    more = (f"{units.count(len(most) - DEVICES)} more devices.",) if len(most) > DEVICES else ()
    return [PageSection(
        _title(prefix, f"Idle by cause{where}"), (*more, *idle.notes),
        ("device", "idle", "of its time", "causes"), rows, ("device",),
    )]


def _device(device: DeviceIdle) -> tuple[str, ...]:
    shares = ", ".join(cause_shares(device, CAUSES))
    share = units.percent(100 * device.idle_ns / device.window_ns, places=0) if device.window_ns else ""
    rank = "" if device.rank is None else f" rank {device.rank}"
    return f"{device.device or 'device'}{rank}", units.duration(device.idle_ns), share, shares


def _kernels(run: Trace, options: Options, side: Side, prefix: str) -> list[PageSection]:
    piece = scoped(run, options, side)
    launches = piece.kernels.filter(is_work())
    sums = launches.group_by("name").agg(
        count=pl.len(), total_ns=pl.col("dur_ns").cast(pl.Int64).sum()).collect(engine="streaming")
    total = int(sums["total_ns"].sum())
    if not total:
        return []
    top = sums.sort("total_ns", pl.col("name").cast(pl.String), descending=[True, False]).head(KERNELS)
    callers = with_callers(run, launches.join(top.lazy().select("name"), on="name", how="semi"), "name", "dur_ns")
    rows = []
    for name, count, time in top.rows():
        by = ""
        if callers is not None:
            by = _caller(callers.filter(pl.col("name").eq_missing(pl.lit(name, pl.String))))
        share = units.percent(100 * time / total, places=0)
        rows.append((fit_name(name, _NAME), units.duration(time), share, units.count(count), by))
    return [PageSection(
        _title(prefix, "Top kernels"), (), ("kernel", "total", "share", "launches", "launched by"), tuple(rows),
        ("kernel", "launched by"),
    )]


def _caller(launches: pl.DataFrame) -> str:
    """The operator, module and Python line behind most of the time of these launches."""
    first = ways(launches).head(1).cast({key: pl.String for key in CALLERS})
    if first.is_empty():
        return ""
    row = first.row(0, named=True)
    return " ← ".join(short_name(row[key]) for key in ("op", "module", "frame") if row[key])


def with_marked(table: Table, marked: Sequence[tuple[str, str, str]]) -> Table:
    """The page plus the rows the user marked: view, text of the row, and the user's note."""
    if not marked:
        return table
    rows = tuple((view, words, note) for view, words, note in marked)
    return replace(table, page=(*table.page, PageSection("Marked rows", (), ("view", "row", "note"), rows, ("row",))))


CHANGES = 5
"""Most causes of the change of the cycle among the rows."""


Changes = tuple[list[tuple[Any, ...]], list[PageSection], list[str], list[str], dict[str, Any]]
_DATA = ("data", "unchecked")
"""Kinds of lines of an answer that say how far it can be trusted."""


def _changes(runs: Runs, options: Options) -> Changes:
    """Rows for the first causes of the change; the page's sections on it: its account, the answer in lines, and where
    to look; the answer; what may weaken it; and the facts ``lines`` and ``headline``."""
    try:
        from .diff import build as compare  # thirty modules that a single run does not need

        answer = compare(runs, options)
    except ScopeRefused:
        raise
    except CannotAnswer as why:
        return [], [PageSection("What changed", (str(why),))], [], [], {}
    change = answer.facts.get("change") or {"causes": []}
    called = (answer.facts.get("cycle_time") or {}).get("verdict") in ("slower", "faster")
    causes = [one for one in change["causes"] if one["delta_ms"]][:CHANGES]
    rows = [(None, "problem" if one["delta_ms"] > 0 and called else "fact", "change", None, _cause(one), "diff",
             _FILTERS.get(one["kind"], "")) for one in causes]
    lines = answer.facts["lines"]
    said = [f"{one['mark']} {one['long']}" for one in lines if one["kind"] not in _DATA]
    weak = [one["long"] for one in lines if one["kind"] in _DATA]
    look = PageSection("What to look at", (), ("in the app", "on the command line"), _LOOK, ("on the command line",))
    account = _account(change, answer.facts.get("cycle_time") or {}) or _differences(answer)
    facts = {"lines": lines, "headline": _headline(answer.facts)}
    return rows, [*account, PageSection("What changed", tuple(said)), look], said, weak, facts


def _headline(facts: dict[str, Any]) -> str:
    """'13% slower, idle on host operators: 0.50 → 2.08 ms': verdict and cause; without a verdict its word."""
    time, lines = facts.get("cycle_time") or {}, facts["lines"]
    verdict, a, b = (time.get(name) for name in ("verdict", "compared_a_ms", "compared_b_ms"))
    if verdict not in ("slower", "faster") or not a or b is None:
        return str(verdict or lines[0]["short"])
    text = f"{units.percent(100 * abs(b - a) / a, places=0)} {verdict}"
    cause = next((one["short"] for one in lines if one["kind"] == "cause"), "").removeprefix("Cause: ")
    return text if not cause or cause.startswith("none found") else f"{text}, {cause}"


_LOOK = (
    ("7, Enter on the first row", "warplens report A B --view diff --top 5 --ids"),
    ("8: why the devices wait", "warplens report A B --view idle"),
    ("6: both timelines, aligned at a cycle", "warplens A B --view timeline"),
)


_SIDES = ("a_ms", "b_ms", "delta_ms")


def _account(change: dict[str, Any], time: dict[str, Any]) -> list[PageSection]:
    """The rows that add up to the change: the largest ones, the smaller ones together, and the sum."""
    causes = change["causes"]
    if not any(one["delta_ms"] for one in causes):
        return []
    total = change["delta_ms"]
    first = sorted(causes, key=lambda one: -abs(one["delta_ms"]))[:CHANGES]
    first = [one for one in first if one["delta_ms"]]
    rest = [one for one in causes if one not in first]

    def row(name: str, *figures: Any) -> tuple[str, ...]:
        a, b, delta, interval = figures
        share = units.percent(100 * delta / total, places=0) if total else units.MISSING
        return (name, *(units.duration(1e6 * one) for one in (a, b)), units.duration(1e6 * delta, signed=True),
                interval, share)

    rows = [row(_name(one), one["a_ms"], one["b_ms"], one["delta_ms"], _interval(one)) for one in first]
    if rest:
        smaller = units.counted(len(rest), "smaller part", "smaller parts")
        rows.append(row(smaller, *(sum(one[name] for one in rest) for name in _SIDES), ""))
    of_all = _interval({"low_ms": time.get("mean_low_ms"), "high_ms": time.get("mean_high_ms")})
    rows.append(row("the cycle", *(sum(one[name] for one in causes) for name in _SIDES[:2]), total, of_all))
    title = f"What the {units.duration(1e6 * total, signed=True)} are"
    of = f" of {change['device']}" if change.get("device") else ""
    cycles = " and ".join(units.count(time.get(f"cycles_{side}") or 0) for side in SIDES)
    return [PageSection(title, (f"Mean times of a cycle{of}; {cycles} whole cycles.",),
                        ("part", "A", "B", "Δ", "95% CI", "of the change"), tuple(rows))]


def _differences(answer: Answer) -> list[PageSection]:
    """The rows that differ most, where the change of a cycle has no account: they need not add up to anything."""
    top = answer.frame.filter(pl.col("part_of").is_null() & (pl.col("delta_ms").abs() > 0)).sort(
        pl.col("delta_ms").abs(), descending=True, maintain_order=True).head(2 * CHANGES).select(
        pl.col("function", "function_b", "verdict").cast(pl.String), "kind", "a_ms", "b_ms", "delta_ms", "ci_low_ms",
        "ci_high_ms").collect()
    rows = [(_name({"kind": "", "name": row["function"], "name_b": row["function_b"]}),
             *(units.duration(1e6 * row[name]) for name in ("a_ms", "b_ms")),
             units.duration(1e6 * row["delta_ms"], signed=True),
             _interval({"low_ms": row["ci_low_ms"], "high_ms": row["ci_high_ms"]}), row["verdict"] or "")
            for row in top.rows(named=True)]
    header = ("row", "A", "B", "Δ", "95% CI", "verdict")
    return [PageSection("What differs most", (), header, tuple(rows))] if rows else []


def _interval(one: dict[str, Any]) -> str:
    if one.get("low_ms") is None:
        return units.MISSING
    return "…".join(units.duration(1e6 * one[end], signed=True) for end in ("low_ms", "high_ms"))


def _name(one: dict[str, Any]) -> str:
    from ..diff.sentences import cause_name  # of a pair only

    name = cause_name(one["kind"], one["name"] if one["kind"] == "idle" else fit_name(one["name"], _NAME))
    return f"{name} → {fit_name(one['name_b'], _NAME)}" if one["name_b"] else name


_FILTERS = {"idle": "kind=idle"}


def _cause(one: dict[str, Any]) -> str:
    """'gemm 0.60 → 0.78 ms per cycle, +0.18': a cause of the change as a finding."""
    from ..diff.sentences import cause_name  # of a pair only

    name = cause_name(one["kind"], one["name"] if one["kind"] == "idle" else fit_name(one["name"], _NAME))
    other = f", in B {fit_name(one['name_b'], _NAME)}" if one["name_b"] else ""
    delta = units.figure(one["delta_ms"], signed=True)
    return f"{name}{other}: {units.amount(one['a_ms'], one['b_ms'])} a cycle, {delta}"


VIEW = View("triage", COLUMNS, build, scopes_itself=True, noun="findings", details=lambda row, runs, options: [])
