"""The answer in lines: the fact ``lines``, the same on the screen, in text and in markdown, most important first.

A line has a long form and a short one of at most 54 cells, which with its mark fills a frame of 60 columns. What is
said is decided by the rules and by the judge; here it is put in order and shortened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..core import units
from ..core.text import display

SHORT = 54
MARKS = {"problem": "✗", "hint": "!", "fact": "·", "unchecked": "○"}
LARGE = 1 / 3
"""Share of the base from which the top kernel is told among the findings."""
WORTH = 0.01
"""A finding that is about less than this share of the base is no line of the answer."""
_KINDS = {"problem": "finding", "hint": "finding", "fact": "data", "unchecked": "unchecked"}
_ASIDE = re.compile(r" \([^()]*\)")
_MOST = re.compile(r", most [^,;:]*, ")
_CLAUSES = re.compile(r"; |, most ")
_BREAKS = re.compile(r"[;:,] | (?:in steps|on|per|for|because|that|in|without|not)\b")


def line(kind: str, mark: str, long: str, short: str = "") -> dict[str, str]:
    """One line of an answer."""
    long = display(long)
    return {"kind": kind, "mark": mark, "long": long, "short": short if 0 < len(short) <= SHORT else shortened(long)}


def saved_at_most(rule: dict[str, Any]) -> float | None:
    """What doing away with a finding saves at most per cycle, ns: predicted, else the time it is about."""
    predicted = rule.get("time_to_win_ns")
    return rule.get("at_most_ns") if predicted is None else predicted


def lines_of(facts: dict[str, Any]) -> list[dict[str, str]]:
    """The lines of one run, from the findings in the facts of its overview."""
    rules = [one for one in facts.get("rules") or () if one["severity"] != "unchecked"]
    base = (facts.get("base") or {}).get("ns")
    rules, top = _with_the_top(rules, base)
    result = [line("finding" if one["rule"] == "costliest" and top else _KINDS[one["severity"]],
                   MARKS[one["severity"]], one["sentence"], one.get("short") or "") for one in rules
              if not base or saved_at_most(one) is None or saved_at_most(one) >= WORTH * base]
    if not any(one["kind"] == "finding" and one["mark"] != "·" for one in result):
        result.insert(0, line("verdict", "✓", "No problem found by the rules that could be checked."))
    if facts.get("unchecked"):
        result.append(line("unchecked", MARKS["unchecked"], str(facts["unchecked"])))
    return result


def _with_the_top(rules: list[dict[str, Any]], base: float | None) -> tuple[list[dict[str, Any]], bool]:
    """The findings with the top kernel before those that are about little beside it, and whether it is among them: it
    is where it takes at least ``LARGE`` of the base."""
    top = next((one for one in rules if one["rule"] == "costliest"), None)
    time = next((one.get("each_ns") or 0 for one in (top or {}).get("rows") or ()), 0)
    if top is None or not base or time < LARGE * base:
        return rules, False
    others = [one for one in rules if one is not top]
    small = [at for at, one in enumerate(others) if one["severity"] != "fact" and (saved_at_most(one) or 0) < time / 4]
    at = min(small, default=next((at for at, one in enumerate(others) if one["severity"] == "fact"), len(others)))
    return [*others[:at], top, *others[at:]], True


_LABELLED = re.compile(r"(\w+)\s+(.*)", re.DOTALL)
_SPREAD = re.compile(r"\. (?=[AB] has )")
_VERDICTS = {"slower": "✗", "faster": "✓", "unchanged": "="}
_PAIR_KINDS = {"Cycle": "verdict", "Work": "verdict", "Step": "verdict", "Cause": "cause", "Idle": "cause",
               "Change": "cause", "Lead": "cause", "GPU": "effect", "Ranks": "effect", "Launch": "effect",
               "Shape": "spread", "Data": "data"}
_CAUSES = ("Cause", "Idle", "Change", "Lead")
"""What names a cause, the most telling first; the others follow as effects."""
_TOPICS = ("Ranks", "Data", "Change", "Lead", "Compare", "Launch", "Rows", "Shape", "Idle")
_ORDER = ("verdict", "cause", "finding", "effect", "spread", "unchanged", "unchecked", "data")
_IDLE = re.compile(r" idles (?:more|less) on ([^:(]*[^:( ])[^:]*: ([^,]*) a cycle")
"""What a device waits for longer or shorter, and how long: the sentence on idle time that explains the cycle."""
_FEW, _WITHOUT = re.compile(r"; only [^.;]*"), re.compile(r", without [^().]*")
"""How few cycles a verdict rests on, and which were left out."""
NO_CAUSE = "Cause: none found."


def lines_of_pair(
    summary: Sequence[str], times: dict[str, Any] | None, why_not: str = "", grown: Mapping[str, bool] | None = None
) -> list[dict[str, str]]:
    """The lines of two runs, from the labelled sentences of the diff ('Cycle   slower: …'): the verdict, then the
    cause, then the rest. ``times`` is the fact ``cycle_time``, ``why_not`` why no cause can be named, ``grown``
    whether each device works longer in B ('' where their work is told in one sum)."""
    verdict = (times or {}).get("verdict") or ""
    said = [match.groups() if (match := _LABELLED.match(text)) else ("", text) for text in summary]
    cause = next((label for label in _CAUSES if any(one == label for one, _ in said)), None)
    result: list[dict[str, str]] = []
    for label, text in said:
        kind, mark = _PAIR_KINDS.get(label, "finding"), "·"
        if kind == "verdict" and not any(one["kind"] == "verdict" for one in result):
            first, *more = _SPREAD.split(text, maxsplit=1)
            result.append(_verdict_line(times, label, first) or line(
                kind, _VERDICTS.get(verdict, "○"), first if label == "Cycle" else f"{label} {first}"))
            result += [line("spread", "!", one) for one in more]
            continue
        if kind == "cause" and label == cause:
            cause, mark = "", "✓" if verdict == "faster" else "!"  # the first sentence under that label
            if label == "Cause" and text.startswith(("no ", "too few ")):
                mark, text = "○", f"none found: {text}"
            idle = _IDLE.search(text)
            short = f"Cause: idle on {idle[1]}: {idle[2]}" if idle else ""
            result.append(line(kind, mark, text if text.startswith("Cause") else f"Cause: {text}", short))
            continue
        if "unchanged" in text and label == "GPU":
            kind, mark = "unchanged", "="
        elif kind in ("verdict", "cause"):
            kind = "effect"
        elif label == "Ranks" or (label == "GPU" and verdict != "not judged" and _grows(text, grown or {})):
            mark = "!"
        if label == "Data" and verdict == "not judged" and text.startswith("not judged: "):
            text = text.partition("; ")[2]  # the verdict says why
            if not text:
                continue
        result.append(line(kind, mark, _after(label, text)))
    if not any(one["kind"] == "verdict" for one in result):
        result.append(line("verdict", "○", f"Not judged: {why_not}." if why_not else
                           "Not judged: these runs have no common cycles."))
    if not any(one["kind"] == "cause" for one in result):
        result.append(line("cause", "○", f"Cause: none found: {why_not}." if why_not else NO_CAUSE))
    return sorted(result, key=lambda one: _ORDER.index(one["kind"]))


def _after(label: str, text: str) -> str:
    """The sentence after its label: a subject reads on ('GPU work a cycle'), a topic has a colon ('Data: …')."""
    if not label or text.startswith(f"{label} "):
        return text
    return f"{label}: {text}" if label in _TOPICS else f"{label} {text}"


def _grows(text: str, grown: Mapping[str, bool]) -> bool:
    """Whether the device that a sentence on GPU work is about has more of it in B."""
    return any(more for device, more in grown.items()
               if len(grown) == 1 or text.startswith(f"{device} ") or f"({device})" in text)


def _verdict_line(times: dict[str, Any] | None, label: str, text: str) -> dict[str, str] | None:
    """The judge's verdict with both lengths and the interval of their difference; None where he gave none."""
    verdict = (times or {}).get("verdict")
    a, b = ((times or {}).get(f"compared_{side}_ms") for side in "ab")
    if times is None or verdict is None or a is None or b is None or label != "Cycle":
        return None
    lengths = f"{units.amount(a, b)} a cycle"
    mark = _VERDICTS.get(verdict, "○")
    low, high, delta = (times.get(f"mean_{name}_ms") for name in ("low", "high", "delta"))
    if verdict == "not judged":
        reason = text.partition("): ")[2]
        long = f"Not judged: {lengths}: {reason}." if reason else f"Not judged: {lengths}."
        return line("verdict", mark, long.replace("..", "."), f"Not judged: {lengths}")
    word = verdict.capitalize()
    few, left = _FEW.search(text), _WITHOUT.search(text)
    if low is None or high is None or delta is None:
        return line("verdict", mark, f"{word}: mean {lengths}{few[0] if few else ''}.", f"{word}: {lengths}")
    interval = f"95% CI {units.rough_figure(low)} to {units.rough_figure(high)} {units.sentence_unit()}"
    more = f"{left[0] if left else ''}{few[0] if few else ''}"
    change = units.amount(delta, signed=True)
    return line("verdict", mark, f"{word}: {lengths}, mean {change} ({interval}){more}.",
                f"{word}: {lengths} ({interval})")


def shortened(sentence: str) -> str:
    """The sentence in at most 54 cells: without asides, then up to the last break between its parts that leaves a
    figure, else cut with '…'."""
    text = sentence.rstrip(".")
    if len(text) <= SHORT:
        return text
    text = _MOST.sub(" ", _ASIDE.sub("", text))
    if len(text) <= SHORT:
        return text
    for pattern, least in ((_CLAUSES, SHORT // 2), (_BREAKS, SHORT // 3)):
        breaks = [match.start() for match in pattern.finditer(text) if least <= match.start() <= SHORT]
        for at in reversed(breaks):
            if any(letter.isdigit() for letter in text[:at]):
                return text[:at]
    return text[: SHORT - 1].rpartition(" ")[0].rstrip(" ,;:") + "…"
