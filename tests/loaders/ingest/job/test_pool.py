"""Processes that take tasks: every task has an outcome, and one that dies costs a try, not the others."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.job import pool
from warplens.loaders.ingest.job.pool import TaskOutcome, WorkerDied, run

TASKS = '''
import os
import signal
import sys
from pathlib import Path

from warplens.loaders.errors import Unreadable


def double(number, tell):
    tell(f"at {number}")
    print("noise on stdout")
    return 2 * number, os.getpid()


def refuse(number, tell):
    raise Unreadable(f"rank{number}", "is broken")


def die(folder, tell):
    mark = Path(folder) / "tried"
    tries = int(mark.read_text()) + 1 if mark.exists() else 1
    mark.write_text(str(tries))
    if tries <= int((Path(folder) / "deaths").read_text()):
        os.kill(os.getpid(), signal.SIGKILL)
    return tries


def linger(folder, tell):
    Path(folder, "pid").write_text(str(os.getpid()))
    signal.pause()
'''
Task = Callable[[object, pool.Tell], object]


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Task]:
    """Tasks of a module that the processes can import, too."""
    (tmp_path / "tasks_of_test.py").write_text(TASKS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("tasks_of_test", None)
    from importlib import import_module

    module = import_module("tasks_of_test")
    return lambda name: getattr(module, name)


def ended(outcomes: list[TaskOutcome]) -> dict[int, TaskOutcome]:
    return {outcome.number: outcome for outcome in outcomes if outcome.ended}


def test_every_argument_has_its_outcome_and_what_is_told_comes_between(task: Callable[[str], Task]) -> None:
    outcomes = list(run(task("double"), [10, 20, 30], 2))
    assert {number: one.value[0] for number, one in ended(outcomes).items()} == {0: 20, 1: 40, 2: 60}
    assert sorted(str(one.message) for one in outcomes if not one.ended) == ["at 10", "at 20", "at 30"]
    assert len({one.value[1] for one in ended(outcomes).values()}) <= 2
    assert os.getpid() not in {one.value[1] for one in ended(outcomes).values()}


def test_an_error_is_an_outcome(task: Callable[[str], Task]) -> None:
    (outcome,) = run(task("refuse"), [7], 1)
    assert isinstance(outcome.error, Unreadable) and str(outcome.error).startswith("rank7: is broken")


@pytest.mark.parametrize(("deaths", "tried"), [(0, 1), (1, 2)])
def test_a_process_that_dies_costs_a_try(task: Callable[[str], Task], tmp_path: Path, deaths: int, tried: int) -> None:
    (tmp_path / "deaths").write_text(str(deaths))
    (outcome,) = run(task("die"), [str(tmp_path)], 1)
    assert outcome.value == tried and outcome.error is None


def test_a_task_that_kills_every_process_is_given_up_and_the_others_go_on(
    task: Callable[[str], Task], tmp_path: Path
) -> None:
    places = [tmp_path / str(number) for number in range(3)]
    for number, place in enumerate(places):
        place.mkdir()
        (place / "deaths").write_text("99" if number == 1 else "0")
    outcomes = ended(list(run(task("die"), list(map(str, places)), 1)))
    assert [outcomes[0].value, outcomes[2].value] == [1, 1]
    assert isinstance(outcomes[1].error, WorkerDied) and outcomes[1].error.status == -signal.SIGKILL
    assert (places[1] / "tried").read_text() == str(pool.TRIES)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux lets one wait for a process of another")
def test_processes_end_with_whoever_started_them(task: Callable[[str], Task], tmp_path: Path) -> None:
    task("linger")
    os.mkfifo(tmp_path / "pid")
    starts = f"""
from tasks_of_test import linger
from warplens.loaders.ingest.job.pool import run
list(run(linger, [{str(tmp_path)!r}], 1))
"""
    starter = subprocess.Popen([sys.executable, "-c", starts])
    with open(tmp_path / "pid") as pipe:  # until it is there
        watched = os.pidfd_open(int(pipe.read()))
    starter.kill()
    starter.wait()
    ended, _, _ = select.select([watched], [], [], 120)
    os.close(watched)
    assert ended, "the process outlives the one that started it"


def test_a_closed_iterator_stops_the_processes(
    task: Callable[[str], Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    start, started = subprocess.Popen, list[subprocess.Popen[bytes]]()

    def noted(*command: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*command, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    outcomes = run(task("double"), list(range(50)), 1)
    next(outcomes)
    outcomes.close()
    assert started and all(process.returncode is not None for process in started)


def test_no_more_processes_than_tasks_processors_and_memory_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16), raising=False)
    monkeypatch.setattr(pool, "available_bytes", lambda: 7 * pool.TASK_BYTES)
    assert [pool.most_workers(tasks) for tasks in (1, 5, 100)] == [1, 5, 7]
    assert pool.most_workers(100, 3 * pool.TASK_BYTES) == 2
    monkeypatch.setattr(pool, "available_bytes", lambda: 1)
    assert pool.most_workers(100) == 1
    monkeypatch.setattr(pool, "available_bytes", lambda: None)
    assert pool.most_workers(100) == 16
