"""A reduced dataset answers as the recordings it was made from do, and says what it no longer holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from made_job import reduce_here, write_job

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer, ScopeRefused
from warplens.analysis.details.suspects import function_details
from warplens.analysis.overview.headline import headline
from warplens.analysis.query.answering import ANSWERED
from warplens.analysis.query.ask import ask
from warplens.analysis.table.table import Table
from warplens.analysis.views import VIEWS, view
from warplens.loaders import schema
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, Trace]:
    """A job of four ranks from its recordings, and from its dataset."""
    folder = tmp_path_factory.mktemp("fleet")
    job = write_job(folder / "job")
    opened = [open_run(str(path), use_cache=False)[0] for path in (job, reduce_here(job, folder / "dataset"))]
    return opened[0], opened[1]


def answer(run: Trace, name: str, **options: Any) -> Table:
    return ask(view(name), (run,), Options(**options))


def rows(table: Table) -> list[str]:
    return sorted(map(str, table.frame.with_columns(pl.col(pl.Categorical).cast(pl.String)).to_dicts()))


@pytest.mark.parametrize("scope", [{}, {"rank": 2}, {"warm_up": False}, {"device": "GPU 1"}], ids=str)
@pytest.mark.parametrize("name", ["ranks", "collectives", "cycles", "kernels", "overview"])
def test_views_of_a_job_answer_alike(both: tuple[Trace, Trace], name: str, scope: dict[str, Any]) -> None:
    recorded, reduced = (answer(run, name, **scope) for run in both)
    assert rows(reduced) == rows(recorded)


def test_the_late_rank_is_named_with_the_same_reason(both: tuple[Trace, Trace]) -> None:
    recorded, reduced = (answer(run, "ranks").facts["straggler"] for run in both)
    assert reduced["rank"] == recorded["rank"] == 2
    assert reduced["reason"] == recorded["reason"] == "kernels"
    assert "most of all flash_fwd_kernel" in reduced["sentence"]


def test_details_of_a_collective_say_what_its_last_rank_did_before(both: tuple[Trace, Trace]) -> None:
    told = []
    for run in both:
        row = next(row for row in answer(run, "collectives").frame.to_dicts() if row["bytes"] == 2 * 8_388_608)
        details = view("collectives").details
        assert details is not None
        arrivals, earlier, _ = details(row, (run,), Options())
        assert arrivals.title == "The one with the longest waits" and arrivals.rows[-1][0] == "rank 2"
        assert arrivals.rows[-1][3] == "0 ns"
        assert earlier.columns == ("", "rank 2", "others, median")
        told.append(earlier.rows)
    assert told[0] == told[1]
    spent = {what: (own, usual) for what, own, usual in told[0]}
    assert list(spent) == ["in all", "computing", "host waits for input", "until the host launched it"]


def test_idle_time_by_cause_is_that_of_all_gaps(both: tuple[Trace, Trace]) -> None:
    recorded, reduced = (answer(run, "idle") for run in both)
    assert reduced.facts["devices"] == recorded.facts["devices"]
    listed, every = (table.frame.drop("index").rows() for table in (reduced, recorded))
    assert set(listed) <= set(every) and len(listed) == 4 * 32 < len(every)
    assert any("longest gaps of each rank" in note for note in reduced.notes)


def test_a_cycle_has_its_kernels(both: tuple[Trace, Trace]) -> None:
    recorded, reduced = (answer(run, "kernels", cycle=4).frame.select("name", "device", "count", "total_ns")
                         for run in both)
    assert sorted(reduced.rows()) == sorted(recorded.rows())


@pytest.mark.parametrize("name", ["ranks", "collectives", "cycles"])
def test_one_cycle_answers_as_the_recordings_do(both: tuple[Trace, Trace], name: str) -> None:
    recorded, reduced = (answer(run, name, cycle=4) for run in both)
    assert rows(reduced) == rows(recorded)
    # names of kernels are not in a dataset, so ideal durations are those of ranks
    slowdown, own = (one.facts.pop("slowdown", None) for one in (reduced, recorded))
    assert reduced.facts == recorded.facts
    if own is not None:
        assert slowdown["ratio"] == pytest.approx(own["ratio"], rel=0.01)
        assert slowdown["worst"][0]["saved_ns"] == own["worst"][0]["saved_ns"]
    # how busy devices are in the steps alone is not in a dataset
    assert reduced.summary == tuple(line.split("; 4 devices busy")[0] for line in recorded.summary)


def test_without_warm_up_the_rest_of_each_device_is_left(tmp_path: Path) -> None:
    job = write_job(tmp_path / "job", ranks=2, late=1, warm_up=4.0, steps=12)
    opened = [open_run(str(path), use_cache=False)[0] for path in (job, reduce_here(job, tmp_path / "dataset"))]
    for name in ("ranks", "collectives"):
        recorded, reduced = (answer(run, name, warm_up=False) for run in opened)
        assert rows(reduced) == rows(recorded) != rows(answer(opened[0], name))
    with pytest.raises(CannotAnswer, match="has no breakdown without warm-up"):
        answer(opened[1], "overview", warm_up=False)


@pytest.mark.parametrize("name", ["ranks", "collectives"])
def test_a_dataset_from_before_single_cycles_were_kept_says_so(both: tuple[Trace, Trace], name: str) -> None:
    old = both[1].with_tables(cycle_device_sums=schema.empty("cycle_device_sums"))
    assert any("Reduce the job again" in note for note in answer(old, name, cycle=4).notes)
    assert not any("Reduce the job again" in note for note in answer(both[1], name, cycle=4).notes)


def test_why_a_device_waited_in_one_cycle_is_refused(both: tuple[Trace, Trace]) -> None:
    for name, said in (("idle", "idle causes"), ("overview", "breakdown")):
        with pytest.raises(CannotAnswer, match=f"has no {said} of a single cycle"):
            answer(both[1], name, cycle=4)


@pytest.mark.parametrize("name", [one.name for one in VIEWS if view(one.name).one_run and one.name not in ANSWERED])
def test_what_stayed_in_the_recordings_is_said(both: tuple[Trace, Trace], name: str) -> None:
    with pytest.raises(CannotAnswer, match=r"is a reduced dataset without the data of the .* view"):
        answer(both[1], name)


@pytest.mark.parametrize(
    ("scope", "said"),
    [({"pid_a": 4001, "pid_b": 4001}, "cannot be limited to a process"), ({"from_ns": 5}, "a window of time"),
     ({"rank": 9}, "has no rank 9; it has 0, 1, 2, 3"), ({"device": "GPU 9"}, "has no device GPU 9; it has GPU 0"),
     ({"cycle": 77}, "no cycle 77")],
    ids=str,
)
def test_a_scope_it_cannot_tell_is_refused(both: tuple[Trace, Trace], scope: dict[str, Any], said: str) -> None:
    with pytest.raises(ScopeRefused, match=said):
        answer(both[1], "kernels", **scope)


def test_findings_of_single_ranks_say_how_many_show_them(both: tuple[Trace, Trace]) -> None:
    told = [(0, "drained", "hint", "A loop waits.", 5.0), (2, "drained", "hint", "Another loop waits.", 9.0),
            (1, "warm-up", "hint", "One step is slow.", None), (3, "pageable", "unchecked", "no copies", None)]
    names = ["rank", "rule", "severity", "sentence", "cost_ns"]
    rows = pl.LazyFrame(told, schema=names, orient="row")
    run = both[1].with_tables(findings=schema.conform("findings", rows))
    rules = {one["rule"]: one["sentence"] for one in answer(run, "overview").facts["rules"]}
    assert rules["drained"] == "On rank 2: Another loop waits. 2 of 4 ranks show this, rank 2 most."
    assert rules["warm-up"] == "On rank 1 only: One step is slow."
    assert "busy" in rules  # what follows from sums is said of all ranks
    assert "pageable (no copies)" in answer(run, "overview").facts["unchecked"]


def test_an_overview_says_what_a_dataset_no_longer_holds(both: tuple[Trace, Trace]) -> None:
    assert any(note.startswith("A reduced dataset:") for note in answer(both[1], "overview").notes)


def test_memory_names_the_rank_nearest_to_its_limit(both: tuple[Trace, Trace]) -> None:
    for run in both:
        table = answer(run, "ranks")
        assert table.facts["memory"] == {
            "rank": 3, "device": "GPU 3", "used": 72 * 2.0**30, "share": 0.9, "ranks": 4,
        }
        assert "Rank 3 is nearest to the limit of its memory: 90% (72.0 GiB)." in table.summary


def test_two_datasets_are_compared(both: tuple[Trace, Trace], tmp_path: Path) -> None:
    slower = write_job(tmp_path / "job", late=1, slower=2.0, seed=8)
    other = open_run(str(reduce_here(slower, tmp_path / "other")), use_cache=False)[0]
    table = ask(view("diff"), (both[1], other), Options())
    called = table.frame.filter(pl.col("verdict") == "slower")
    assert set(called["device"].cast(pl.String)) == {"GPU 1"}
    ranks = ask(view("ranks"), (both[1], other), Options())
    assert "The late rank changed: rank 2 in A, rank 1 in B." in ranks.summary


@pytest.mark.parametrize("reduced", [
    pytest.param(False, id="recordings"), pytest.param(True, id="datasets", marks=pytest.mark.deep)])
def test_ranks_on_hosts_that_number_alike_are_compared_each_with_itself(tmp_path: Path, reduced: bool) -> None:
    # ranks 3 and 11 are both GPU 3 with pid 4003, on two hosts; of the others one a host was recorded
    jobs = [write_job(tmp_path / name, ranks=16, late=late, steps=6, layers=1) for name, late in (("a", 3), ("b", 11))]
    for file in (file for job in jobs for file in job.iterdir() if int(file.name[4:8]) not in (3, 6, 11, 14)):
        file.unlink()
    paths = [reduce_here(job, tmp_path / f"{job.name}-reduced") for job in jobs] if reduced else jobs
    runs = tuple(open_run(str(path), use_cache=False)[0] for path in paths)
    table = ask(view("diff"), runs, Options())
    for verdict, rank in (("slower", 11), ("faster", 3)):
        called = table.frame.filter(pl.col("verdict") == verdict)
        assert set(called.select("rank", "device", "pid_a", "pid_b").rows()) == {(rank, "GPU 3", 4003, 4003)}
    assert any("rank 11 (GPU 3)" in line for line in table.summary)
    assert any("waited for rank 3, now for rank 11" in line for line in table.summary)
    row = table.frame.filter(pl.col("verdict") == "slower").row(0, named=True)
    details = function_details(runs, Options(), row["function"], "GPU 3", 4003, 4003, 11)
    assert details.cycles is not None
    assert float(details.cycles.ms.b.mean()) > 1.2 * float(details.cycles.ms.a.mean())


def test_ranks_of_one_job_only_are_said(both: tuple[Trace, Trace], tmp_path: Path) -> None:
    fewer = open_run(str(reduce_here(write_job(tmp_path / "job", ranks=3), tmp_path / "three")), use_cache=False)[0]
    table = ask(view("diff"), (both[1], fewer), Options())
    assert "1 rank of A is not in the other run, and not compared." in table.notes
    assert set(table.frame["rank"]) == {0, 1, 2}


def test_the_header_counts_ranks_and_launches(both: tuple[Trace, Trace]) -> None:
    recorded, reduced = (headline((run,)) for run in both)
    assert reduced == f"dataset · 4 ranks, reduced · {recorded.split(' · ', 1)[1]}"
