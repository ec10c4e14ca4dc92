"""Recording a serving engine over HTTP: ``/start_profile`` and ``/stop_profile``, as SGLang and vLLM have them.

SGLang takes the settings from the body and writes to the folder it names; with ``num_steps`` it stops by itself. vLLM
takes none: it writes to the folder it was started with, which ``-o`` has to name. Only the address that was given is
spoken to: redirects are not followed, proxies not asked. An engine that was told to begin is told to stop, whatever
happens in between.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import time
from pathlib import Path
from threading import Event
from urllib.parse import SplitResult, urlsplit

from ...analysis.core.text import display
from ...library import UsageError
from ..arguments import Failure
from .road import Arrival, Ask, Result, Stopped, new_stem

_SHOWN = 200
"""Characters of an engine's answer that are shown."""
_READ = 1 << 16
_TICK = 0.1
_SETTLED = 1.0
"""Seconds without a new file after which no further rank is waited for."""
_LAST_STOP = 10.0
"""Seconds to tell an engine to stop when the recording was given up."""
_DEEPEST = 4
_ENDINGS = (".json", ".json.gz")


class Engine:
    """An engine that answers at an address."""

    exit_status = None
    over = ""

    def __init__(self, url: str) -> None:
        """Raises UsageError for an address that is none."""
        self.stopping, self.dropped = Event(), 0
        try:
            self._at: SplitResult = urlsplit(url)
            self._port = self._at.port
        except ValueError as error:
            raise UsageError(f"{display(url)} is not an address: {error}") from None
        if not self._at.hostname or self._at.query or self._at.fragment or self._at.username:
            raise UsageError(f"{display(url)} is not the address of an engine", "It looks like http://127.0.0.1:30000.")
        self._shown = display(f"{self._at.scheme}://{self._at.netloc}", 100)

    def record(self, ask: Ask) -> Result:
        """Record once."""
        begun, moment, stem = time.monotonic(), time.time(), new_stem(ask.out)
        if self.stopping.wait(ask.after):
            raise Stopped
        if ask.cycles is not None and self._is_vllm(ask):
            raise Failure(f"{self._shown} is a vLLM, which counts no steps", "Record by time: --ms.")
        before = _stamps(ask.out)
        settings = {"output_dir": str(ask.out / stem), "activities": ["CPU", "GPU"], "record_shapes": True,
                    "with_stack": ask.stack, **({"num_steps": ask.cycles} if ask.cycles is not None else {})}
        self._post("/start_profile", ask.timeout, settings)
        running = True
        try:
            if ask.cycles is None:
                if self.stopping.wait(ask.ms / 1000):
                    raise Stopped
                self._post("/stop_profile", ask.timeout)
                running = False
            files = self._files(ask, before, moment)
            running = running and not files  # SGLang has stopped by itself where it has written
        finally:
            if running:
                with contextlib.suppress(Failure):
                    self._post("/stop_profile", _LAST_STOP)
        if len(files) > 1:
            files = _together(files, ask.out / stem)
        reason = "" if files else (
            f"{self._shown} was asked, and wrote nothing whole to {display(str(ask.out))} within {ask.timeout:g} s: a "
            "vLLM writes where its torch_profiler_dir says, so name that with -o; an engine elsewhere, on its own disk")
        return Result(files, 1, reason, time.monotonic() - begun)

    def idle(self, seconds: float) -> None:
        """Wait."""
        self.stopping.wait(seconds)

    def close(self) -> None:
        """Nothing is left to take away."""

    def _files(self, ask: Ask, before: dict[Path, tuple[int, int]], moment: float) -> list[Path]:
        """The new files under the folder, once all are whole; empty where none came in time."""
        arrivals: dict[Path, Arrival] = {}
        deadline, news_at, sizes = time.monotonic() + ask.timeout, time.monotonic(), -1
        while True:
            for path, stamp in _stamps(ask.out).items():
                if before.get(path) != stamp and path not in arrivals:
                    arrivals[path], news_at = Arrival([path], moment - 1), time.monotonic()
            now = time.monotonic()
            whole = [path for path, one in arrivals.items() if one.look(now)]
            if (total := sum(one.size for one in arrivals.values())) != sizes:
                sizes, deadline = total, max(deadline, now + ask.timeout)
            if (whole and len(whole) == len(arrivals) and now - news_at >= _SETTLED) or now >= deadline:
                return sorted(whole)
            if self.stopping.wait(_TICK):
                raise Stopped

    def _is_vllm(self, ask: Ask) -> bool:
        """Whether the engine has vLLM's ``/version``."""
        try:
            status, body = self._send("GET", "/version", min(ask.timeout, _LAST_STOP), None)
            return status == 200 and "version" in json.loads(body)
        except (Failure, ValueError, TypeError):
            return False

    def _post(self, path: str, timeout: float, settings: dict[str, object] | None = None) -> None:
        """Raises Failure, status 1, unless the engine answers that it is done."""
        status, body = self._send("POST", path, timeout, settings)
        if 200 <= status < 300:
            return
        said = display(body.decode(errors="replace").strip()[:_SHOWN])
        advice = ("The engine was started without a profiler: vLLM needs --profiler-config with torch_profiler_dir."
                  if status == 404 else "Redirects are not followed: give the address itself."
                  if 300 <= status < 400 else "")
        raise Failure(f"{self._shown} answers {status} to {path}" + (f": {said}" if said else ""), advice, status=1)

    def _send(
        self, method: str, path: str, timeout: float, settings: dict[str, object] | None
    ) -> tuple[int, bytes]:
        """Status and the beginning of the body. Raises Failure, status 1."""
        kind = http.client.HTTPSConnection if self._at.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._at.hostname or "", self._port, timeout=timeout)
        data = None if settings is None else json.dumps(settings).encode()
        try:
            connection.request(method, self._at.path.rstrip("/") + path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read(_READ)
        except TimeoutError:
            raise Failure(f"{self._shown} did not answer {path} within {timeout:g} s", status=1) from None
        except http.client.HTTPException as error:
            raise Failure(f"{self._shown} does not speak HTTP ({type(error).__name__})", status=1) from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            if isinstance(error, socket.gaierror):
                why = "no such host"
            raise Failure(f"{self._shown}: {display(why.lower(), _SHOWN)}", status=1) from None
        finally:
            connection.close()


def _together(files: list[Path], home: Path) -> list[Path]:
    """The files of one recording in a folder without others, so that it opens as the job; where they cannot be moved,
    where they are."""
    if all(file.is_relative_to(home) for file in files) or len({file.name for file in files}) < len(files):
        return files
    with contextlib.suppress(OSError):
        home.mkdir(exist_ok=True)
        return [file.rename(home / file.name) for file in files]
    return [file for file in (*files, *(home / file.name for file in files)) if file.exists()]


def _stamps(folder: Path) -> dict[Path, tuple[int, int]]:
    """Size and time of every file under the folder that may be a trace, a few levels deep."""
    stamps = {}
    base = len(folder.parts)
    for place, folders, names in os.walk(folder):
        if len(Path(place).parts) - base >= _DEEPEST:
            folders.clear()
        for name in names:
            if name.endswith(_ENDINGS):
                with contextlib.suppress(OSError):
                    state = os.lstat(os.path.join(place, name))
                    stamps[Path(place, name)] = state.st_size, state.st_mtime_ns
    return stamps
