"""The result of a gate as JUnit XML, which CI servers display: one test case per ``--fail-on`` condition."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from html import escape  # XML needs the same escapes; xml.sax would import all of urllib
from typing import NamedTuple

from ..library import UsageError
from .output import JUNIT


class Case(NamedTuple):
    """One condition as typed, whether it passed, and a sentence that says why."""

    name: str
    passed: bool
    sentence: str


def require_gate(arguments: argparse.Namespace) -> None:
    """Raise UsageError if JUnit output is requested without a gate."""
    if arguments.format == JUNIT and not arguments.fail_on:
        raise UsageError("--format junit has one case per gate; name some with --fail-on")


def junit(command: str, cases: Sequence[Case]) -> bytes:
    """The JUnit XML document."""
    from ..analysis.core.text import clean

    failed = sum(not case.passed for case in cases)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites><testsuite name="warplens {command}" tests="{len(cases)}" failures="{failed}">',
    ]
    for case in cases:
        inside = f"<system-out>{escape(clean(case.sentence), quote=False)}</system-out>"
        if not case.passed:
            inside = f'<failure message="{escape(clean(case.sentence))}"/>'
        lines.append(f'<testcase classname="warplens.{command}" name="{escape(case.name)}">{inside}</testcase>')
    return "\n".join([*lines, "</testsuite></testsuites>", ""]).encode("utf-8", "replace")
