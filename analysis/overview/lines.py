"""The answer in lines: the fact ``lines``, the same on the screen, in text and in markdown, most important first.

A line has a long form and a short one of at most 54 cells, which with its mark fills a frame of 60 columns. What is
said is decided by the rules and by the judge; here it is put in order and shortened.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..core.text import display

SHORT = 54
MARKS = {"problem": "✗", "hint": "!", "fact": "·", "unchecked": "○"}
WORTH = 0.01
"""A finding that is about less than this share of the base is no line of the answer."""
_KINDS = {"problem": "finding", "hint": "finding", "fact": "data", "unchecked": "unchecked"}
_ASIDE = re.compile(r" \([^()]*\)")
_CLAUSES = re.compile(r"; |, most ")
_BREAKS = re.compile(r"[;:,] | (?:in steps|on|for|because|that|in|without|not)\b")


def line(kind: str, mark: str, long: str, short: str = "") -> dict[str, str]:
    """One line of an answer."""
    long = display(long)
    return {"kind": kind, "mark": mark, "long": long, "short": short if 0 < len(short) <= SHORT else shortened(long)}


def lines_of(facts: dict[str, Any]) -> list[dict[str, str]]:
    """The lines of one run, from the findings in the facts of its overview."""
    rules = [one for one in facts.get("rules") or () if one["severity"] != "unchecked"]
    result = [line(_KINDS[one["severity"]], MARKS[one["severity"]], one["sentence"]) for one in rules]
    if not any(one["kind"] == "finding" for one in result):
        result.insert(0, line("verdict", "✓", "No problem found by the rules that could be checked."))
    if facts.get("unchecked"):
        result.append(line("unchecked", MARKS["unchecked"], str(facts["unchecked"])))
    return result


_LABELLED = re.compile(r"(\w+)\s+(.*)", re.DOTALL)
_VERDICTS = {"slower": "✗", "faster": "✓", "unchanged": "="}
_PAIR_KINDS = {"Cycle": "verdict", "Work": "verdict", "Step": "verdict", "Cause": "cause", "Change": "cause",
               "Lead": "cause", "Idle": "cause", "GPU": "effect", "Ranks": "effect", "Launch": "effect",
               "Shape": "spread", "Data": "data"}
_ORDER = ("verdict", "cause", "finding", "effect", "spread", "unchanged", "unchecked", "data")
NO_CAUSE = "Cause: none found."


def lines_of_pair(summary: Sequence[str], verdict: str | None, why_not: str = "") -> list[dict[str, str]]:
    """The lines of two runs, from the labelled sentences of the diff ('Cycle   slower: …'): the verdict, then the
    cause, then the rest. ``verdict`` is the judge's word on the cycle, ``why_not`` why no cause can be named."""
    result: list[dict[str, str]] = []
    for text in summary:
        match = _LABELLED.match(text)
        label, said = match.groups() if match else ("", text)
        kind = _PAIR_KINDS.get(label, "finding")
        mark = _VERDICTS.get(verdict or "", "○") if kind == "verdict" else "!" if kind == "cause" else "·"
        if kind == "verdict" and any(one["kind"] == "verdict" for one in result):
            kind = "effect"
        result.append(line(kind, mark, said if kind == "verdict" and label == "Cycle" else f"{label} {said}".strip()))
    if not any(one["kind"] == "verdict" for one in result):
        result.append(line("verdict", "○", "Not judged: these runs have no common cycles."))
    if not any(one["kind"] == "cause" for one in result):
        result.append(line("cause", "○", f"Cause: none found: {why_not}." if why_not else NO_CAUSE))
    return sorted(result, key=lambda one: _ORDER.index(one["kind"]))


def shortened(sentence: str) -> str:
    """The sentence in at most 54 cells: without asides, then up to the last break between its parts that leaves a
    figure, else cut with '…'."""
    text = sentence.rstrip(".")
    if len(text) <= SHORT:
        return text
    text = _ASIDE.sub("", text)
    if len(text) <= SHORT:
        return text
    for pattern, least in ((_CLAUSES, SHORT // 2), (_BREAKS, SHORT // 3)):
        breaks = [match.start() for match in pattern.finditer(text) if least <= match.start() <= SHORT]
        for at in reversed(breaks):
            if any(letter.isdigit() for letter in text[:at]):
                return text[:at]
    return text[: SHORT - 1].rpartition(" ")[0].rstrip(" ,;:") + "…"


def fitting(lines: Sequence[dict[str, str]], width: int) -> list[str]:
    """The lines in a frame of ``width`` cells: the long form where it fits, else the short one."""
    return [one["long"] if len(one["long"]) + 2 <= width else one["short"] for one in lines]
