"""The socket folder: private, held by one recorder, swept when its recorder was killed, left to a job that uses it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kineto_client import Client, request

from warplens.cli.arguments import Failure
from warplens.cli.record import sockets


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short folder: names of sockets have at most 107 bytes."""
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        monkeypatch.setenv("XDG_RUNTIME_DIR", name)
        monkeypatch.setattr(sockets, "_places", lambda: [Path(name)])
        yield Path(name)


@pytest.fixture(scope="module")
def dead() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_the_folder_is_for_this_user_alone_and_short_enough_for_the_job(place: Path) -> None:
    folder = sockets.private_folder()
    assert folder.parent == place and folder.stat().st_mode & 0o777 == 0o700
    assert len(f"{folder}/dynoconfigclient12345678-1234-4123-8123-123456789012") <= 107
    assert str(os.getpid()) in folder.name


def test_a_folder_too_long_for_the_jobs_socket_is_not_taken(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 60)
    long.mkdir()
    monkeypatch.setattr(sockets, "_places", lambda: [long, place])
    assert sockets.private_folder().parent == place and not [*long.iterdir()]
    monkeypatch.setattr(sockets, "_places", lambda: [long])
    with pytest.raises(Failure, match="54 characters"):
        sockets.private_folder()


def test_dead_recorders_are_swept_and_nothing_else(place: Path, dead: int) -> None:
    for name in (f"warplens-record-{dead}-abc", f"warplens-record-{os.getpid()}-abc", f"warplens-{dead}-abc", "other"):
        (place / name).mkdir()
    sockets.Endpoint(str(place / f"warplens-record-{dead}-abc")).close()
    sockets.sweep()
    left = {one.name for one in place.iterdir()}
    assert left == {f"warplens-record-{os.getpid()}-abc", f"warplens-{dead}-abc", "other"}


def test_a_link_in_place_of_a_folder_is_not_followed(place: Path, dead: int) -> None:
    (place / "other").mkdir()
    (place / "other" / "dynolog").write_text("mine")
    (place / f"warplens-record-{dead}-abc").symlink_to(place / "other")
    sockets.sweep()
    assert (place / "other" / "dynolog").read_text() == "mine"


def test_a_job_that_outlives_its_recorder_keeps_its_own_socket(place: Path, dead: int) -> None:
    folder = place / f"warplens-record-{dead}-abc"
    sockets.Endpoint(str(folder)).close()
    job = Client(folder)
    sockets.sweep()
    assert job.own.exists() and not (folder / "dynolog").exists()
    job.socket.close()  # killed: the socket's name stays
    sockets.sweep()
    assert not folder.exists()


def test_a_job_that_outlived_its_recorder_can_be_asked_again(place: Path, dead: int) -> None:
    folder = place / f"warplens-record-{dead}-abc"
    sockets.Endpoint(str(folder)).close()
    job = Client(folder)
    sockets.sweep()
    again = sockets.Endpoint(str(folder))
    job.send(request(*job.pids))
    assert [data for data, _, _ in again.datagrams()] == [request(*job.pids)]
    again.remove()
    assert job.own.exists()
    job.close()


def test_two_recorders_do_not_share_a_folder(place: Path) -> None:
    first = sockets.Endpoint(str(place))
    with pytest.raises(Failure, match="another recorder") as refused:
        sockets.Endpoint(str(place))
    assert refused.value.status == 3
    first.remove()
    assert not (place / "dynolog").exists()
    sockets.Endpoint(str(place)).remove()


def test_a_daemon_of_others_is_not_displaced(place: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
        daemon.bind(str(place / "dynolog"))
        with pytest.raises(Failure, match="dynolog"):
            sockets.Endpoint(str(place))
    sockets.Endpoint(str(place)).remove()  # it has ended, and left its name


def test_a_recorder_that_wants_nothing_lets_another_have_the_job(place: Path) -> None:
    folder = str(place / f"warplens-record-{os.getpid()}-abc")
    first = sockets.Endpoint(folder)
    first.lend()
    second = sockets.Endpoint(folder)
    job = Client(folder)
    job.send(request(1))
    assert not [*first.datagrams()] and len([*second.datagrams()]) == 1
    assert not first.take_back()
    second.remove()
    assert first.take_back()
    job.send(request(2))
    assert [data for data, _, _ in first.datagrams()] == [request(2)]
    job.close()
    first.remove()
    assert not Path(folder).exists()


def test_another_users_datagram_is_not_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, job = sockets.Endpoint(str(place)), Client(place)
    job.send(request(1))
    monkeypatch.setattr(sockets.os, "getuid", lambda: 4_000_000)
    assert [data for data, _, _ in endpoint.datagrams()] == [b""]
    monkeypatch.undo()
    job.close()
    endpoint.remove()


def test_an_answer_to_a_job_that_does_not_read_never_blocks(place: Path) -> None:
    endpoint, job = sockets.Endpoint(str(place)), Client(place)
    sent = [endpoint.answer(b"x" * 100, str(job.own)) for _ in range(5_000)]
    assert sent[0] and not sent[-1]
    job.close()
    assert not endpoint.answer(b"x", str(job.own))
    endpoint.remove()
