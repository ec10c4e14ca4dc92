"""What is said of a run's replay: rows of changes, sentences, the critical path as text, the reasons of a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.changes import Change, parse
from ..contract.options import Options
from ..contract.sections import Section
from ..contract.view import CannotAnswer
from ..core import units
from ..core.names.short_name import short_name
from .accuracy import PREDICTS, TRUSTED, Accuracy
from .candidates import ALL, candidates, how
from .critical_path import LETTERS, MEANINGS, Path, critical_path
from .model import Outcome
from .replayed import Replayed, replay_of

_STRIP = 100
_PARTS = 40
"""Parts of the critical path that are listed."""
_SMALL, _LARGE = 0.25, 0.10
"""Something that takes that share of the cycle and wins no more than that share of itself is worth a sentence."""
_FORMATS = "Kineto, Nsight Systems, rocprofv3, rocpd, RPD and Perfetto recordings with runtime calls"
ASSUMED = "Host code is assumed to run as fast as before; wins of several changes do not add up."


class Prediction(Struct, frozen=True):
    """A change, each gone (factor 0), per cycle: times in ns, ``takes`` and ``share`` of the cycle."""

    kind: str
    name: str
    device_ns: int | None
    takes: float | None
    saved_ns: int
    share: float
    saved_at_peak_ns: int | None
    count: float
    how: str
    change: str


class Predictions(Struct, frozen=True):
    """The answer for one run; ``accuracy`` is None where nothing can be replayed."""

    label: str
    rows: tuple[Prediction, ...] = ()
    accuracy: Accuracy | None = None
    cycle_ns: float | None = None
    sentences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    picture: tuple[tuple[str, ...], ...] = ()
    path: dict[str, Any] | None = None
    scenario: dict[str, Any] | None = None


def predictions(run: Trace, options: Options, changes: Sequence[Change]) -> Predictions:
    """What changes would buy in a run, and what these would together. Raises ScopeRefused."""
    if not run.has("kernels"):
        raise CannotAnswer(f"{run.info.label} cannot be replayed: it holds no launches. {_FORMATS} can.")
    replayed = replay_of(run, options)
    accuracy = replayed.accuracy
    if replayed.model is None:
        said = f"{run.info.label} cannot be replayed: {accuracy.reason}. {_FORMATS} can."
        return Predictions(run.info.label, sentences=(said,), notes=(said,))
    if not replayed.predicts:
        said = f"Nothing is predicted for {run.info.label}: {accuracy.reason}."
        return Predictions(run.info.label, accuracy=accuracy, sentences=(said,), notes=(said,))
    rows = run.remember("whatif", (options.cycle_anchor,), lambda: _rows(run, replayed))
    path = critical_path(replayed.model, replayed.host, replayed.unchanged)
    scenario, notes = None, [ASSUMED]
    sentences = [*_headline(rows, replayed), _path_sentence(path), _accuracy_sentence(accuracy)]
    if changes:
        outcome, unmatched = replayed.with_changes(changes)
        scenario = _scenario(replayed, outcome, changes)
        sentences.insert(0, _scenario_sentence(scenario, replayed))
        notes += [f"{text} matches nothing in {run.info.label}." for text in unmatched]
    return Predictions(
        run.info.label, rows, accuracy, replayed.cycle_ns, tuple(sentences), tuple(notes), (_picture(path),),
        _path_facts(path), scenario,
    )


def _rows(run: Trace, replayed: Replayed) -> tuple[Prediction, ...]:
    cycle = max(replayed.cycle_ns, 1.0)
    rows = []
    for one in candidates(run, replayed):
        saved = replayed.saved_ns(one.change)
        rows.append(Prediction(
            one.change.kind, one.name, None if one.device_ns is None else round(one.device_ns),
            None if one.device_ns is None else one.device_ns / cycle, round(saved), saved / cycle,
            _at_peak(replayed, one.change), one.count,
            how(one.change, one.name), one.change.text,
        ))
    return tuple(sorted(rows, key=lambda row: -row.saved_ns))


def _at_peak(replayed: Replayed, change: Change) -> int | None:
    """What is saved where it takes the least time its work allows; None where that is not known of any of it."""
    if change.kind not in ("kernel", "op", "copy") or np.isnan(replayed.least).all():
        return None
    outcome, unmatched = replayed.with_changes((replace(change, factor=None),))
    assert replayed.model is not None
    return None if unmatched else round(replayed.cycle_ns - replayed.model.cycle_ns(outcome))


def _scenario(replayed: Replayed, outcome: Outcome, changes: Sequence[Change]) -> dict[str, Any]:
    assert replayed.model is not None
    predicted = replayed.model.cycle_ns(outcome)
    return {
        "changes": [change.text for change in changes], "cycle_ns": round(replayed.cycle_ns),
        "predicted_ns": round(predicted), "saved_ns": round(replayed.cycle_ns) - round(predicted),
    }


def per(replayed: Replayed) -> str:
    """What the times are per."""
    return "cycle" if replayed.accuracy.cycles else "recording"


def _scenario_sentence(scenario: dict[str, Any], replayed: Replayed) -> str:
    before, after, saved = scenario["cycle_ns"], scenario["predicted_ns"], scenario["saved_ns"]
    faster = f", {before / after:.2f}× as fast" if after > 0 and saved > 0 else ""
    words = f"{units.duration(abs(saved))} {'less' if saved >= 0 else 'more'}{faster}"
    return (f"With {' and '.join(scenario['changes'])} the {per(replayed)} takes {units.duration(after)} instead of "
            f"{units.duration(before)}: {words}.")


def _headline(rows: Sequence[Prediction], replayed: Replayed) -> list[str]:
    """What wins most, and what takes much and wins little."""
    single = [row for row in rows if row.name not in ALL.values() and row.saved_ns > 0]
    if not single:
        return ["No single change makes the cycle shorter."]
    best = single[0]
    takes = "" if best.device_ns is None else f" It takes {units.duration(best.device_ns)}."
    lines = [
        f"{_named(best)} gone wins most: {units.duration(best.saved_ns)} of {units.duration(replayed.cycle_ns)} per "
        f"{per(replayed)} ({units.percent(100 * best.share, places=0)}).{takes}"
    ]
    hidden = [row for row in rows if row.kind == "kernel" and row.name not in ALL.values() and row.takes is not None
              and row.takes >= _LARGE and row.share <= _SMALL * row.takes]
    if hidden:
        most = max(hidden, key=lambda row: row.takes or 0.0)
        lines.append(
            f"{_named(most)} takes {units.percent(100 * (most.takes or 0), places=0)} of the {per(replayed)} and wins "
            f"{units.percent(100 * most.share, places=0)}: something else sets the pace while it runs."
        )
    return lines


_NOUN = {"idle": "Idle time: ", "sync": "Waiting in ", "host": "Host code: ", "op": "Operator "}


def _named(row: Prediction) -> str:
    return f"{_NOUN.get(row.kind, '')}{short_name(row.name) if row.kind in ('kernel', 'collective') else row.name}"


def _shares(path: Path) -> str:
    length = max(path.end - path.begin, 1)
    parts = [(ns / length, MEANINGS[kind]) for kind, ns in path.by_kind().items()]
    return ", ".join(f"{units.percent(100 * share, places=0)} {name}" for share, name in parts if share >= 0.005)


def _path_sentence(path: Path) -> str:
    return f"Critical path: {_shares(path)}."


def _accuracy_sentence(accuracy: Accuracy) -> str:
    assert accuracy.recorded_ns is not None and accuracy.replayed_ns is not None and accuracy.error is not None
    verdict = "trusted" if accuracy.trusted else f"not trusted: over {TRUSTED:.0%}, under {PREDICTS:.0%}"
    cross = "" if accuracy.cross_error is None else f", next cycle off by {accuracy.cross_error:.2%}"
    times = f"Recorded {units.duration(accuracy.recorded_ns)}, replayed {units.duration(accuracy.replayed_ns)}"
    error = units.percent(100 * accuracy.error, signed=True, places=2)
    return (f"{times}: error {error}{cross}, kept {accuracy.kept:.1%}, unexplained "
            f"{accuracy.unexplained:.1%}; {verdict}.")


def _picture(path: Path) -> tuple[str, ...]:
    """The path as a strip of letters, its scale and its legend."""
    kinds = path.strip(_STRIP)
    middle, end = units.duration((path.end - path.begin) / 2), units.duration(path.end - path.begin)
    scale = "0".ljust(_STRIP // 2) + middle
    legend = "  ".join(f"{LETTERS[kind]} {MEANINGS[kind]}" for kind in path.by_kind())
    return ("".join(LETTERS[kind] for kind in kinds), scale.ljust(_STRIP - len(end)) + end, legend)


def _path_facts(path: Path) -> dict[str, Any]:
    length = max(path.end - path.begin, 1)
    parts = path.parts()
    facts: dict[str, Any] = {
        "cycle": path.cycle, "length_ns": path.end - path.begin,
        "kinds": {kind: ns / length for kind, ns in path.by_kind().items()},
        "parts": [{"kind": kind, "name": name, "ns": ns, "share": ns / length} for kind, name, ns in parts[:_PARTS]],
    }
    rest = sum(ns for _, _, ns in parts[_PARTS:])
    if rest:
        more = f"{len(parts) - _PARTS} more"
        facts["parts"].append({"kind": "other", "name": more, "ns": rest, "share": rest / length})
    return facts


def came_true(sides: Sequence[Predictions]) -> str:
    """What was predicted for A with the changes, beside what B took; '' where there is nothing to compare."""
    a, b = sides
    if a.scenario is None or b.cycle_ns is None:
        return ""
    off = b.cycle_ns / max(a.scenario["predicted_ns"], 1) - 1
    predicted = units.duration(a.scenario["predicted_ns"])
    return (f"Predicted for A with {' and '.join(a.scenario['changes'])}: {predicted}; B took "
            f"{units.duration(b.cycle_ns)} ({units.percent(100 * off, signed=True)}).")


def why(row: dict[str, Any], run: Trace, options: Options) -> list[Section]:
    """The sections of a row: the critical path before the change and with it, and how it is made."""
    replayed = replay_of(run, options)
    if replayed.model is None or not row.get("change"):
        return []
    change = parse(str(row["change"]))
    outcome, _ = replayed.with_changes((change,))
    before = critical_path(replayed.model, replayed.host, replayed.unchanged)
    after = critical_path(replayed.model, replayed.host, outcome)
    old, new = before.by_kind(), after.by_kind()
    cycle = replayed.model.cycle_ns(outcome)
    rows = [("cycle", units.duration(replayed.cycle_ns), units.duration(cycle))]
    rows += [(MEANINGS[kind], units.duration(old.get(kind, 0)), units.duration(new.get(kind, 0)))
             for kind in sorted({*old, *new}, key=lambda kind: -old.get(kind, 0))]
    sections = [Section("Critical path of a cycle", tuple(rows), ("", "as recorded", "with the change"))]
    sections.append(Section("Then the longest on it", tuple(
        (f"{MEANINGS[kind]}: {short_name(name)}", units.duration(ns)) for kind, name, ns in after.parts()[:6]
    )))
    if made := how(change, str(row["name"])):
        sections.append(Section("How it is done", (("", made),)))
    return sections
