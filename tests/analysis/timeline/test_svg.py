"""A view as a picture: every line is there, and nothing recorded is markup."""

from __future__ import annotations

from xml.etree import ElementTree

from runs import kernel, run_of

from warplens.analysis.contract.options import Options
from warplens.analysis.query.ask import ask
from warplens.analysis.table.export import render
from warplens.analysis.views.kernels import VIEW as KERNELS
from warplens.analysis.views.timeline import VIEW as TIMELINE

TEXT = "{http://www.w3.org/2000/svg}text"


def lines(table):
    return [node.text or "" for node in ElementTree.fromstring(render(table, "svg")).iter(TEXT)]


def test_the_timeline_is_drawn_line_by_line() -> None:
    table = ask(TIMELINE, (run_of(kernels=[kernel(0, 0, 90, "gemm", stream=7)]),), Options(columns=40))
    shown = lines(table)
    assert any("stream 7" in line and "[gemm" in line for line in shown)


def test_a_name_full_of_markup_stays_text() -> None:
    table = ask(KERNELS, (run_of(kernels=[kernel(0, 0, 5, "<script>&]]>\x1b[31m")]),))
    assert any("script" in line for line in lines(table))
    assert "\x1b" not in render(table, "svg").decode()
