"""The result of a gate as JUnit XML, which CI servers display: one test case per ``--fail-on`` condition."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from html import escape  # XML needs the same escapes; xml.sax would import all of urllib
from typing import NamedTuple

from ..library import UsageError
from .output import JUNIT


class Case(NamedTuple):
    """One condition as typed, its result (PASS, FAIL or NOT JUDGED), and a sentence that says why."""

    name: str
    result: str
    sentence: str


def require_gate(arguments: argparse.Namespace) -> None:
    """Raise UsageError if JUnit output is requested without a gate."""
    if arguments.format == JUNIT and not arguments.fail_on:
        raise UsageError("--format junit has one case per gate; name some with --fail-on")


def junit(command: str, cases: Sequence[Case]) -> bytes:
    """The JUnit XML document."""
    from ..analysis.core.text import clean

    failed, skipped = (sum(case.result == result for case in cases) for result in ("FAIL", "NOT JUDGED"))
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites><testsuite name="warplens {command}" tests="{len(cases)}" failures="{failed}" '
        f'skipped="{skipped}">',
    ]
    for case in cases:
        inside = f"<system-out>{escape(clean(case.sentence), quote=False)}</system-out>"
        if case.result != "PASS":
            element = "failure" if case.result == "FAIL" else "skipped"
            inside = f'<{element} message="{escape(clean(case.sentence))}"/>'
        lines.append(f'<testcase classname="warplens.{command}" name="{escape(case.name)}">{inside}</testcase>')
    return "\n".join([*lines, "</testsuite></testsuites>", ""]).encode("utf-8", "replace")
