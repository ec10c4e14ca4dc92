"""Recording an engine over HTTP: SGLang's and vLLM's forms, and every way in which one can fail."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kineto_client import document, in_thread

from warplens.cli.arguments import Failure
from warplens.cli.record import engine, road
from warplens.cli.record.road import Ask, Stopped
from warplens.library import UsageError


class FakeEngine(ThreadingHTTPServer):
    """An engine of one kind, which writes ``ranks`` files when its profile ends."""

    daemon_threads = True

    def __init__(self, kind: str, folder: Path | None = None, ranks: int = 1) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.kind, self.folder, self.ranks = kind, folder, ranks
        self.heard: list[tuple[str, Any]] = []
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.began = threading.Event()
        in_thread(lambda: self.serve_forever(0.005))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def write(self) -> None:
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        for rank in range(self.ranks):
            (self.folder / f"1795-TP-{rank}.trace.json.gz").write_bytes(gzip.compress(document().encode()))


class _Handler(BaseHTTPRequestHandler):
    server: FakeEngine

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = json.loads(body) if body else None
        self.server.heard.append((self.path, asked))
        if self.path in self.server.answers:
            return self._answer(*self.server.answers[self.path])
        if self.path == "/start_profile":
            self.server.began.set()
            if self.server.kind == "sglang":
                self.server.folder = Path(asked["output_dir"])
                if "num_steps" in asked:
                    self.server.write()
        elif self.path == "/stop_profile":
            self.server.write()
        self._answer(200, b"ok")

    def do_GET(self) -> None:
        is_version = self.path == "/version" and self.server.kind == "vllm"
        self._answer(*((200, b'{"version": "0.13.0"}') if is_version else (404, b"")))

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", "http://127.0.0.1:1/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_TICK", 0.005)
    monkeypatch.setattr(engine, "_SETTLED", 0.05)
    monkeypatch.setattr(road, "_QUIET", 0.03)


@pytest.fixture
def servers() -> Iterator[list[FakeEngine]]:
    started: list[FakeEngine] = []
    yield started
    for one in started:
        one.shutdown()
        one.server_close()


def wanted(out: Path, **more: Any) -> Ask:
    return Ask(**{"out": out, "ms": 10, "cycles": None, "after": 0.0, "stack": False, "timeout": 20.0, **more})


def test_sglang_counts_steps_and_stops_by_itself(tmp_path: Path, servers: list[FakeEngine]) -> None:
    servers.append(server := FakeEngine("sglang", ranks=2))
    result = engine.Engine(server.url + "/").record(wanted(tmp_path, cycles=5, stack=True))
    assert [path for path, _ in server.heard] == ["/start_profile"]
    asked = server.heard[0][1]
    assert asked["num_steps"] == 5 and asked["with_stack"] is True and asked["activities"] == ["CPU", "GPU"]
    assert [one.name for one in result.files] == ["1795-TP-0.trace.json.gz", "1795-TP-1.trace.json.gz"]
    assert result.path.parent == tmp_path and (result.asked, result.reason) == (1, "")


def test_sglang_by_time_is_stopped(tmp_path: Path, servers: list[FakeEngine]) -> None:
    servers.append(server := FakeEngine("sglang"))
    result = engine.Engine(server.url).record(wanted(tmp_path))
    assert [path for path, _ in server.heard] == ["/start_profile", "/stop_profile"]
    assert "num_steps" not in server.heard[0][1] and len(result.files) == 1


def test_vllm_writes_where_it_was_started_to(tmp_path: Path, servers: list[FakeEngine]) -> None:
    (tmp_path / "old.trace.json.gz").write_bytes(gzip.compress(b"{}"))
    servers.append(server := FakeEngine("vllm", tmp_path / "rank0"))
    result = engine.Engine(server.url).record(wanted(tmp_path))
    assert result.files == [tmp_path / "rank0" / "1795-TP-0.trace.json.gz"]
    assert [path for path, _ in server.heard] == ["/start_profile", "/stop_profile"]


def test_ranks_of_vllm_are_put_apart_from_older_files(tmp_path: Path, servers: list[FakeEngine]) -> None:
    (tmp_path / "0-TP-0.trace.json.gz").write_bytes(gzip.compress(b"{}"))
    servers.append(server := FakeEngine("vllm", tmp_path, ranks=2))
    result = engine.Engine(server.url).record(wanted(tmp_path))
    assert len(result.files) == 2 and {*result.path.iterdir()} == {*result.files}
    assert [one.name for one in tmp_path.glob("*.gz")] == ["0-TP-0.trace.json.gz"]


def test_vllm_counts_no_steps_and_is_not_begun(tmp_path: Path, servers: list[FakeEngine]) -> None:
    servers.append(server := FakeEngine("vllm", tmp_path))
    with pytest.raises(Failure, match="counts no steps") as refused:
        engine.Engine(server.url).record(wanted(tmp_path, cycles=3))
    assert refused.value.status == 3 and server.heard == []


@pytest.mark.parametrize(("status", "body", "said", "hint"), [
    (404, b"", "answers 404 to /start_profile", "without a profiler"),
    (500, b"boom \x1b[31m\x07 " + b"x" * 500, "answers 500 to /start_profile: boom ", ""),
    (307, b"", "answers 307 to /start_profile", "not followed"),
    (400, b"already in progress", "already in progress", ""),
])
def test_an_engine_that_refuses(
    tmp_path: Path, servers: list[FakeEngine], status: int, body: bytes, said: str, hint: str
) -> None:
    servers.append(server := FakeEngine("sglang"))
    server.answers["/start_profile"] = status, body
    with pytest.raises(Failure) as refused:
        engine.Engine(server.url).record(wanted(tmp_path))
    message = refused.value.message
    assert said in message and hint in refused.value.hint and refused.value.status == 1
    assert "\x1b" not in message and "\x07" not in message and len(message) < 320
    assert [path for path, _ in server.heard] == ["/start_profile"]  # what never began is not stopped


@pytest.mark.parametrize(("sent", "said"), [
    (b"\x00\x01garbage\r\n\r\n", "does not speak HTTP"), (b"", "does not speak HTTP"), (None, "did not answer"),
])
def test_what_is_no_engine(tmp_path: Path, sent: bytes | None, said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        kept = []

        def answer() -> None:
            connection, _ = listening.accept()
            kept.append(connection)
            if sent is not None:
                connection.recv(1 << 16)
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_RDWR)

        thread = in_thread(answer)
        with pytest.raises(Failure, match=said) as refused:
            engine.Engine(f"http://127.0.0.1:{listening.getsockname()[1]}").record(wanted(tmp_path, timeout=0.2))
        assert refused.value.status == 1
        thread.join()
        for one in kept:
            one.close()


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(Failure, match="connection refused"):
        engine.Engine(f"http://127.0.0.1:{port}").record(wanted(tmp_path))


def test_an_engine_that_writes_nothing_is_told_to_stop(tmp_path: Path, servers: list[FakeEngine]) -> None:
    servers.append(server := FakeEngine("other", tmp_path / "elsewhere"))
    (tmp_path / "out").mkdir()
    result = engine.Engine(server.url).record(wanted(tmp_path / "out", cycles=5, timeout=0.05))
    assert result.files == [] and "torch_profiler_dir" in result.reason
    assert [path for path, _ in server.heard] == ["/start_profile", "/stop_profile"]


def test_a_recording_that_is_given_up_stops_the_engine(tmp_path: Path, servers: list[FakeEngine]) -> None:
    servers.append(server := FakeEngine("vllm", tmp_path))
    one = engine.Engine(server.url)

    def give_up() -> None:
        server.began.wait()
        one.stopping.set()

    thread = in_thread(give_up)
    with pytest.raises(Stopped):
        one.record(wanted(tmp_path, ms=60_000))
    thread.join()
    assert [path for path, _ in server.heard] == ["/start_profile", "/stop_profile"]


def test_a_cut_file_is_waited_for(tmp_path: Path, servers: list[FakeEngine]) -> None:
    servers.append(server := FakeEngine("vllm", tmp_path))
    whole = gzip.compress(document().encode())
    server.write = lambda: (tmp_path / "a.json.gz").write_bytes(whole[:-9]) and None  # type: ignore[method-assign]
    result = engine.Engine(server.url).record(wanted(tmp_path, timeout=0.1))
    assert result.files == []


@pytest.mark.parametrize("url", ["http://", "http://a:b", "http://u:p@host", "http://host/?a=1", "http://[::1"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UsageError):
        engine.Engine(url)
