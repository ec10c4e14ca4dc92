"""Answers given before are given again: per view, runs and scope, until what is open changes, and in bounded memory."""

from __future__ import annotations

import polars as pl
import pytest
from app_runs import app_on, press, settled, small_run

from warplens.analysis.contract.column import Column
from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import Answer, Runs, View
from warplens.loaders.trace import Trace
from warplens.tui.session.answers import Answers


class Asked:
    """A view of ``rows`` rows that counts how often it is asked."""

    def __init__(self, rows: int = 3) -> None:
        self.times = 0
        self._rows = rows
        self.view = View("counted", (Column("n", "n", "count", "a number"),), self._build)

    def _build(self, runs: Runs, options: Options) -> Answer:
        self.times += 1
        return Answer(pl.LazyFrame({"n": range(self._rows)}))


@pytest.fixture
def run() -> Trace:
    return small_run()


def test_a_question_is_asked_once(run: Trace) -> None:
    answers, asked = Answers(), Asked()
    first = answers.ask(asked.view, (run,), Options(), (run,))
    assert answers.ask(asked.view, (run,), Options(), (run,)) is first
    assert asked.times == 1


def test_another_scope_is_another_question_and_the_old_answer_is_still_there(run: Trace) -> None:
    answers, asked = Answers(), Asked()
    for cycle in (None, 1, None, 1):
        answers.ask(asked.view, (run,), Options(cycle=cycle), (run,))
    assert asked.times == 2


def test_runs_that_were_read_anew_are_asked_anew_and_what_was_said_of_the_old_ones_goes(run: Trace) -> None:
    answers, asked, again = Answers(), Asked(), small_run()
    answers.ask(asked.view, (run,), Options(), (run,))
    answers.ask(asked.view, (again,), Options(), (again,))
    answers.ask(asked.view, (run,), Options(), (run,))
    assert asked.times == 3


def test_what_was_looked_at_longest_ago_makes_room(run: Trace) -> None:
    answers, views = Answers(most_cells=6), [Asked(), Asked(), Asked()]
    for number in (0, 1, 0, 2, 0, 1):
        answers.ask(views[number].view, (run,), Options(), (run,))
    assert [one.times for one in views] == [1, 2, 1]


def test_an_answer_that_fills_the_memory_is_not_kept(run: Trace) -> None:
    answers, small, large = Answers(most_cells=6), Asked(), Asked(4)
    for _ in range(2):
        answers.ask(small.view, (run,), Options(), (run,))
        answers.ask(large.view, (run,), Options(), (run,))
    assert (small.times, large.times) == (1, 2)


async def test_the_app_does_not_ask_again_for_a_run_it_comes_back_to(questions: list[str]) -> None:
    app = app_on("a", "b", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        questions.clear()
        await press(pilot, "x", "x", "x", "x", "x", "x")
        assert questions == ["kernels ['normal']", "kernels ['abnormal']"]
