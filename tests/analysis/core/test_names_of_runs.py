"""A kernel's short name is its own: the same in every list of the run, in its sentences, and never another's."""

from __future__ import annotations

import polars as pl
import pytest
from runs import kernel, run_of

from warplens.analysis.contract.options import Options
from warplens.analysis.core.names.display_names import MOST, ShortNames, short_names_of
from warplens.analysis.query.report import report
from warplens.analysis.table.filters import Filter
from warplens.analysis.table.sql import query
from warplens.analysis.table.table import Table
from warplens.loaders.trace import Trace

STEM = "ampere_bf16_s16816gemm_bf16_{}_ldg8_f2f_stages_{}_tn"
GEMMS = [STEM.format(*one) for one in [("64x64_sliced1x2", "64x5"), ("64x64", "64x5"), ("64x64_sliced1x2", "64x6")]]
WIDTH = 36


def made(*names: str) -> Trace:
    """Each name once, the first the longest."""
    return run_of(kernels=[kernel(at, 10_000 * at, 9_000 - 100 * at, name) for at, name in enumerate(names)])


def shown(table: Table) -> dict[str, str]:
    rows = table.with_shown(WIDTH).frame
    return dict(zip(rows["name"].cast(pl.String), rows["shown"], strict=True))


@pytest.fixture(scope="module")
def run() -> Trace:
    return made(*GEMMS, "void fill(float*)")


def test_a_list_of_some_shows_them_as_the_list_of_all(run: Trace) -> None:
    every = shown(report("kernels", (run,), Options()))
    assert len(set(every.values())) == 4
    for some in (
        report("kernels", (run,), Options(), top=1), report("kernels", (run,), Options(), condition=Filter("64x6")),
        report("launches", (run,), Options(), top=2), report("kernels", (run,), Options(from_ns=0, to_ns=8_000)),
        query((run,), "select name from kernels where index = 1"),
    ):
        assert 0 < len(some) < 4
        assert all(every[name] == text for name, text in shown(some).items())


def test_sentences_and_pages_call_it_what_the_list_does(run: Trace) -> None:
    first = shown(report("kernels", (run,), Options()))[GEMMS[0]]
    assert any(first in said for said in report("overview", (run,), Options()).facts["findings"])
    (top,) = (part for part in report("triage", (run,), Options()).page if part.title == "Top kernels")
    assert top.rows[0][0] == first


def test_of_two_runs_no_two_kernels_have_one_name() -> None:
    names = short_names_of((made(*GEMMS[:1]), made(*GEMMS[1:])))
    assert len({names.fit(name, WIDTH) for name in GEMMS}) == 3


def test_of_more_names_than_are_compared_each_still_has_its_own_that_does_not_depend_on_the_others() -> None:
    many = [f"{GEMMS[0]}_{at}" for at in range(MOST + 1)]
    some, fewer = (ShortNames(lambda names=names: names) for names in (many, [*many[1:], "x"]))
    texts = {some.fit(name, WIDTH) for name in many}
    assert len(texts) == len(many) and all(len(text or "") <= WIDTH for text in texts)
    assert fewer.fit(many[7], WIDTH) == some.fit(many[7], WIDTH)
    assert some.fit("aten::mm", WIDTH) == "aten::mm"


def test_a_name_of_no_activity_is_none_of_the_runs() -> None:
    assert short_names_of((made("gemm"),)).fit("aten::mm", WIDTH) is None
