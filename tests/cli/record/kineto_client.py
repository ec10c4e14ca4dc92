"""libkineto's side of the daemon socket without PyTorch: in a thread of the tests, or as a job of its own.

As a program: ``kineto_client.py REQUESTS [half]`` asks so many times, writes what it is asked for, and with ``half``
ends itself in the middle of the file. Its own socket lies beside the daemon's, as libkineto's does.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

HEAD = struct.Struct("<Q32s")


def document(kernels: int = 50) -> str:
    """A Kineto document with so many kernels."""
    return json.dumps({
        "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Made-up GPU"}],
        "traceEvents": [{
            "ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1000 + 100 * number, "dur": 60,
            "args": {"device": 0, "stream": 7, "correlation": number + 1, "grid": [64, 1, 1], "block": [128, 1, 1]},
        } for number in range(kernels)],
    })


def context(pid: int) -> bytes:
    """The datagram with which a process that has a GPU registers."""
    body = struct.pack("<iiq", 0, pid, 0)
    return HEAD.pack(len(body), b"ctxt") + body


def request(*pids: int, kinds: int = 3) -> bytes:
    """The datagram with which a process asks what to record."""
    body = struct.pack(f"<iiq{len(pids)}i", kinds, len(pids), 0, *pids)
    return HEAD.pack(len(body), b"req") + body


def parsed(text: str) -> dict[str, str]:
    """The settings in an answer."""
    return dict(line.split("=", 1) for line in text.splitlines())


class Client:
    """One process of a job, which asks in that folder."""

    def __init__(self, folder: str | Path, *ancestors: int, pid: int | None = None) -> None:
        self.pids = (pid or os.getpid(), *ancestors)
        self.daemon = f"{folder}/dynolog"
        self.own = Path(folder) / f"dynoconfigclient{uuid.uuid4()}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.own))
        self.socket.settimeout(5)

    def send(self, datagram: bytes) -> None:
        """Send anything."""
        self.socket.sendto(datagram, self.daemon)

    def ask(self, kinds: int = 3) -> str:
        """What it is to record; empty: nothing."""
        self.send(request(*self.pids, kinds=kinds))
        data, sender = self.socket.recvfrom(1 << 16)
        assert sender == self.daemon  # libkineto ends the process otherwise
        size, kind = HEAD.unpack_from(data)
        assert (size, kind.rstrip(b"\0")) == (len(data) - HEAD.size, b"req")
        return data[HEAD.size :].decode()

    def file(self, settings: str) -> Path:
        """Where libkineto writes what these settings ask for."""
        told = Path(parsed(settings)["ACTIVITIES_LOG_FILE"])
        return told.with_name(f"{told.stem}_{self.pids[0]}{told.suffix}")

    def wait_for_settings(self, timeout: float = 20.0) -> str:
        """Ask until something is wanted."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if settings := self.ask():
                return settings
            time.sleep(0.005)
        raise AssertionError("nothing was wanted")

    def close(self) -> None:
        """It has ended."""
        self.socket.close()
        self.own.unlink(missing_ok=True)


def in_thread(job: Callable[[], object]) -> threading.Thread:
    """The job, running."""
    thread = threading.Thread(target=job, daemon=True)
    thread.start()
    return thread


def _program(requests: int, fault: str) -> None:
    client, done = Client(os.environ["KINETO_IPC_SOCKET_DIR"], os.getppid()), False
    client.send(context(os.getpid()))
    client.socket.recv(1 << 16)
    for _ in range(requests):
        time.sleep(0.02)
        try:
            settings = client.ask()
        except OSError:  # no daemon: it goes on without
            continue
        if settings and not done:
            done, text = True, document()
            with client.file(settings).open("w") as file:
                file.write(text[: len(text) // 2])
                file.flush()
                if fault == "half":
                    os.kill(os.getpid(), signal.SIGKILL)
                file.write(text[len(text) // 2 :])
    client.close()


if __name__ == "__main__":
    _program(int(sys.argv[1]), "".join(sys.argv[2:]))
