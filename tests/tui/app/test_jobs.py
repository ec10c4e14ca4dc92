"""Questions in threads: dropped at once, late answers ignored, and never more than two of one runner at work."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any

import polars as pl

from warplens.tui.session.jobs import AT_ONCE, Answered, QueryRunner


class App:
    """As much of an app as an runner needs."""

    def __init__(self) -> None:
        self.messages: SimpleQueue[Any] = SimpleQueue()
        self.post_message = self.messages.put

    def set_timer(self, delay: float, callback: object) -> None:
        return None


class Query:
    """A job that says when it starts and ends when it is let."""

    def __init__(self, number: int, started: SimpleQueue[int]) -> None:
        self.number, self._started, self.end = number, started, threading.Event()

    def __call__(self) -> int:
        self._started.put(self.number)
        assert self.end.wait(15)
        return self.number


def test_a_dropped_query_makes_room_and_only_the_newest_of_the_waiting_is_computed() -> None:
    app, taken, started = App(), list[Any](), SimpleQueue[int]()
    runner = QueryRunner(app)
    queries = [Query(number, started) for number in range(5)]
    runner.ask(queries[0], taken.append)
    assert started.get(timeout=15) == 0 and runner.busy
    assert runner.drop() and not runner.busy  # at once, though the query goes on
    runner.ask(queries[1], taken.append)
    assert started.get(timeout=15) == 1, "a new one starts beside the one dropped"
    for query in queries[2:]:
        runner.ask(query, taken.append)
    assert started.empty() and AT_ONCE == 2
    queries[0].end.set()
    assert started.get(timeout=15) == 4, "2 and 3 were never wanted to the end"
    queries[4].end.set()
    queries[1].end.set()
    for _ in range(3):
        answer = app.messages.get(timeout=15)
        assert isinstance(answer, Answered)
        answer.deliver()
    assert taken == [4] and not runner.busy and started.empty()


def test_what_waits_is_dropped_too() -> None:
    app, started = App(), SimpleQueue[int]()
    runner = QueryRunner(app)
    queries = [Query(number, started) for number in range(AT_ONCE + 1)]
    for query in queries:
        runner.ask(query, lambda value: None)
    assert runner.drop() and not runner.drop()
    for query in queries:
        query.end.set()
    for _ in range(AT_ONCE):
        app.messages.get(timeout=15)
    last = Query(9, started)
    last.end.set()
    runner.ask(last, lambda value: None)
    assert sorted(started.get(timeout=15) for _ in range(AT_ONCE + 1)) == [0, 1, 9]


def test_a_panic_of_polars_is_an_answer_and_the_thread_goes_on() -> None:
    app, taken = App(), list[Any]()
    runner = QueryRunner(app)

    def panics() -> None:
        raise pl.exceptions.PanicException("a page of a table")

    for _ in range(AT_ONCE + 1):
        runner.ask(panics, taken.append)
        app.messages.get(timeout=15).deliver()
    assert [type(value) for value in taken] == [RuntimeError] * (AT_ONCE + 1) and str(taken[0]) == "a page of a table"
