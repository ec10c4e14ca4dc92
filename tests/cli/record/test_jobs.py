"""Recording a job over the daemon socket: who is asked, when it is done, and what is said when nothing comes."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kineto_client import Client, context, document, in_thread, parsed, request

from warplens.cli.arguments import Failure
from warplens.cli.record import kineto, processes, road, sockets
from warplens.cli.record.road import Ask, Stopped
from warplens.loaders.ingest.opening import open_run


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto, "TICK", 0.005)
    monkeypatch.setattr(road, "_QUIET", 0.03)


@pytest.fixture
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield name


@pytest.fixture
def sleeper() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts processes that live until the test ends."""
    started: list[subprocess.Popen[bytes]] = []

    def start(**environment: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "60"], env={**os.environ, **environment}))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()


def wanted(out: Path, **more: Any) -> Ask:
    return Ask(**{"out": out, "ms": 1, "cycles": None, "after": 0.0, "stack": False, "timeout": 20.0, **more})


def test_a_process_is_asked_once_and_its_file_is_the_recording(folder: str, tmp_path: Path) -> None:
    job, client, seen = kineto.KinetoJob([sockets.Endpoint(folder)], pids=[os.getpid()]), Client(folder), []

    def work() -> None:
        seen.append(settings := client.wait_for_settings())
        seen.append(client.ask())
        client.file(settings).write_text(document())

    thread = in_thread(work)
    result = job.record(wanted(tmp_path, ms=250))
    thread.join()
    assert parsed(seen[0])["ACTIVITIES_DURATION_MSECS"] == "250" and seen[1] == ""
    assert result.files == [client.file(seen[0])] and result.files[0].parent == tmp_path
    assert (result.asked, result.reason, job.dropped) == (1, "", 0)
    assert result.path == result.files[0]
    client.close()
    job.close()
    assert not [*Path(folder).iterdir()]


def test_what_is_no_message_is_counted_and_changes_nothing(folder: str, tmp_path: Path) -> None:
    job, client = kineto.KinetoJob([sockets.Endpoint(folder)], pids=[os.getpid()]), Client(folder)

    def work() -> None:
        for datagram in (b"", b"x" * 50, request(1)[:-2], b"\0" * 60_000):
            client.send(datagram)
        client.send(context(os.getpid()))
        assert client.socket.recv(100)[-4:] == b"\1\0\0\0"
        client.file(client.wait_for_settings()).write_text(document())

    thread = in_thread(work)
    assert len(job.record(wanted(tmp_path)).files) == 1
    thread.join()
    assert job.dropped == 4
    client.close()
    job.close()


def test_half_a_file_is_waited_for(folder: str, tmp_path: Path) -> None:
    job, client, text = kineto.KinetoJob([sockets.Endpoint(folder)], pids=[os.getpid()]), Client(folder), document()
    whole = threading.Event()

    def work() -> None:
        with client.file(client.wait_for_settings()).open("w") as file:
            file.write(text[: text.index("}, {") + 1])  # ends in a brace, as a document does
            file.flush()
            for _ in range(12):
                client.ask(kinds=0)
                time.sleep(0.005)
            whole.set()
            file.write(text[text.index("}, {") + 1 :])

    thread = in_thread(work)
    result = job.record(wanted(tmp_path))
    assert whole.is_set() and result.files[0].read_text() == text
    thread.join()
    client.close()
    job.close()


def test_a_job_of_others_on_the_same_socket_is_never_asked(
    folder: str, tmp_path: Path, sleeper: Callable[..., subprocess.Popen[bytes]]
) -> None:
    target, other = sleeper().pid, sleeper().pid
    job = kineto.KinetoJob([sockets.Endpoint(folder)], pids=[target])
    ours, theirs = Client(folder, pid=target), Client(folder, pid=other)
    answers = []

    def work() -> None:
        for _ in range(3):
            answers.append(theirs.ask())
        ours.file(ours.wait_for_settings()).write_text(document())
        answers.append(theirs.ask(kinds=0))

    thread = in_thread(work)
    result = job.record(wanted(tmp_path))
    job.idle(0.05)
    thread.join()
    assert answers[:3] == ["", "", ""] and result.asked == 1
    ours.close()
    theirs.close()
    job.close()


def test_the_launcher_stands_for_the_ranks_it_started(
    folder: str, tmp_path: Path, sleeper: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher asks too, before its ranks do; it records nothing of its own, and is left out."""
    launcher, ranks = sleeper(), [sleeper(LOCAL_WORLD_SIZE="2", RANK=str(rank)) for rank in (5, 4)]
    monkeypatch.setattr(kineto, "has_children", lambda pid: pid == launcher.pid)
    job = kineto.KinetoJob([sockets.Endpoint(folder)], pids=[launcher.pid])
    clients = [Client(folder, pid=launcher.pid), *(Client(folder, launcher.pid, pid=one.pid) for one in ranks)]
    told: list[str] = []

    def work() -> None:
        for client in clients:
            settings = client.wait_for_settings()
            client.file(settings).write_text(document(0 if client is clients[0] else 50))
            told.append(parsed(settings)["PROFILE_START_TIME"])

    thread = in_thread(work)
    result = job.record(wanted(tmp_path))
    thread.join()
    assert [one.name for one in result.files] == ["rank-4.json", "rank-5.json"] and result.asked == 3
    assert {*tmp_path.rglob("*.json")} == {*result.files}
    assert result.path.parent == tmp_path and len(open_run(str(result.path))[0].info.ranks) == 2
    assert told[0] == "0" and told[1] == told[2] and int(told[1]) > time.time() * 1000  # when all have asked
    for client in clients:
        client.close()
    job.close()


def test_an_empty_recording_is_asked_for_again_for_longer(folder: str, tmp_path: Path) -> None:
    job, client = kineto.KinetoJob([sockets.Endpoint(folder)], pids=[os.getpid()]), Client(folder)
    told = []

    def work() -> None:
        for kernels in (0, 0, 50):
            settings = client.wait_for_settings()
            told.append(parsed(settings)["ACTIVITIES_DURATION_MSECS"])
            client.file(settings).write_text(document(kernels))

    thread = in_thread(work)
    result = job.record(wanted(tmp_path, ms=100))
    thread.join()
    assert told == ["100", "200", "400"] and result.files[0].read_text() == document()
    client.close()
    job.close()


def test_nothing_is_asked_before_its_time(folder: str, tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    job, client = kineto.KinetoJob([sockets.Endpoint(folder)], process=process), Client(folder, pid=process.pid)
    answers = []

    def work() -> None:
        answers.extend(client.ask() for _ in range(5))
        process.kill()
        process.wait()

    thread = in_thread(work)
    result = job.record(wanted(tmp_path, after=50.0))
    thread.join()
    assert answers == [""] * 5 and result.asked == 0
    assert result.reason == "the job ended before the 50 s of --after were over"
    client.close()
    job.close()


def test_a_job_killed_while_it_writes(folder: str, tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    job, client = kineto.KinetoJob([sockets.Endpoint(folder)], process=process), Client(folder, pid=process.pid)

    def work() -> None:
        client.file(client.wait_for_settings()).write_text(document()[:500])
        process.kill()
        process.wait()

    thread = in_thread(work)
    result = job.record(wanted(tmp_path))
    thread.join()
    assert result.files == [] and "ended while it was writing" in result.reason and "is cut" in result.reason
    assert job.over == "the job has ended" and job.exit_status == -9
    client.close()
    job.close()


def test_a_job_that_ends_without_asking(folder: str, tmp_path: Path) -> None:
    process = subprocess.Popen(["false"])
    process.wait()
    job = kineto.KinetoJob([sockets.Endpoint(folder)], process=process)
    assert job.record(wanted(tmp_path)).reason == "the command exited with 1 before it asked for a recording"
    job.close()


@pytest.mark.parametrize(("kinds", "cycles", "reason"), [
    (3, None, "did not begin to record: a profiler of its own may be running"),
    (3, 5, "did not begin to record: it may mark no steps"), (0, None, "records, and wrote nothing within"),
])
def test_a_file_that_never_comes(folder: str, tmp_path: Path, kinds: int, cycles: int | None, reason: str) -> None:
    job, client = kineto.KinetoJob([sockets.Endpoint(folder)], pids=[os.getpid()]), Client(folder)

    def work() -> None:
        client.wait_for_settings()
        client.ask(kinds=kinds)

    thread = in_thread(work)
    result = job.record(wanted(tmp_path, timeout=0.1, cycles=cycles))
    thread.join()
    assert result.files == [] and result.asked == 1 and reason in result.reason
    client.close()
    job.close()


def test_a_job_that_never_asks(folder: str, tmp_path: Path) -> None:
    job = kineto.KinetoJob([sockets.Endpoint(folder)], pids=[os.getpid()])
    result = job.record(wanted(tmp_path, timeout=0.02))
    assert result.asked == 0 and "did not ask for a recording within 0.02 s" in result.reason
    job.close()


def test_a_full_disk_is_the_reason(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto, "disk_is_full", lambda out: True)
    monkeypatch.setattr(road, "_QUIET_ODD", 0.02)
    job, client = kineto.KinetoJob([sockets.Endpoint(folder)], pids=[os.getpid()]), Client(folder)
    thread = in_thread(lambda: client.file(client.wait_for_settings()).write_text(document()[:500]))
    result = job.record(wanted(tmp_path))
    thread.join()
    assert result.files == [] and "is full" in result.reason and "is cut" in result.reason
    client.close()
    job.close()


def test_a_recording_that_is_given_up(folder: str, tmp_path: Path) -> None:
    job = kineto.KinetoJob([sockets.Endpoint(folder)], pids=[os.getpid()])
    job.stopping.set()
    with pytest.raises(Stopped):
        job.record(wanted(tmp_path))
    job.close()


def test_a_second_recorder_while_one_records_is_told_so(folder: str, tmp_path: Path) -> None:
    private = f"{folder}/warplens-record-{os.getpid()}-abc"
    job = kineto.KinetoJob([sockets.Endpoint(private)], pids=[os.getpid()])
    job.idle(0.0)
    other = sockets.Endpoint(private)
    with pytest.raises(Failure, match="another recorder") as refused:
        job.record(wanted(tmp_path))
    assert refused.value.status == 1
    other.remove()
    job.close()


def test_a_job_that_may_only_write_elsewhere(
    folder: str, tmp_path: Path, sleeper: Callable[..., subprocess.Popen[bytes]]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    pid = sleeper(KINETO_ONDEMAND_TRACE_DIR=str(elsewhere)).pid
    job, client = kineto.KinetoJob([sockets.Endpoint(folder)], pids=[pid]), Client(folder, pid=pid)
    told = []

    def work() -> None:
        told.append(client.file(client.wait_for_settings()))
        told[0].write_text(document())

    thread = in_thread(work)
    result = job.record(wanted(tmp_path / "out"))
    thread.join()
    assert told[0].parent == elsewhere and not told[0].exists()
    assert result.files == [tmp_path / "out" / told[0].name]
    client.close()
    job.close()


@pytest.mark.parametrize(("environment", "said"), [
    ({}, "was not started to be recorded"),
    ({"KINETO_USE_DAEMON": "1"}, "started without KINETO_IPC_SOCKET_DIR"),
    ({"KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": "here"}, "is a relative path"),
])
def test_a_process_that_is_not_prepared_is_refused(
    environment: dict[str, str], said: str, sleeper: Callable[..., subprocess.Popen[bytes]]
) -> None:
    pid = sleeper(**environment).pid
    with pytest.raises(Failure, match=said) as refused:
        processes.prepared(pid, False, None)
    assert refused.value.status == 3 and str(pid) in refused.value.message


def test_a_prepared_process_is_asked_where_it_asks(sleeper: Callable[..., subprocess.Popen[bytes]]) -> None:
    pid = sleeper(KINETO_USE_DAEMON="0", KINETO_IPC_SOCKET_DIR="/tmp/x/").pid
    assert processes.prepared(pid, False, None) == "/tmp/x/"  # to the letter: the job compares names
    with pytest.raises(Failure, match="asks in /tmp/x/, not in /tmp/y"):
        processes.prepared(pid, False, "/tmp/y")
    assert processes.prepared(sleeper(KINETO_USE_DAEMON="1").pid, True, None) is None


def test_nobody_elses_process_is_recorded(
    sleeper: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = sleeper(KINETO_USE_DAEMON="1", KINETO_IPC_SOCKET_DIR="/tmp").pid
    monkeypatch.setattr(processes.os, "getuid", lambda: 4_000_000)
    with pytest.raises(Failure, match=f"process {pid} belongs to another user"):
        processes.prepared(pid, False, None)


def test_a_process_that_has_ended() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not processes.is_alive(process.pid)
    with pytest.raises(Failure, match="has ended"):
        processes.prepared(process.pid, False, None)
    process.wait()
    with pytest.raises(Failure, match="there is no process"):
        processes.prepared(process.pid, False, None)
