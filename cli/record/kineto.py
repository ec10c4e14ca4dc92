"""Recording a PyTorch job through the daemon socket that libkineto looks for.

Nothing is put into the job: it asks, every few seconds, and is answered. What it does not hear from us it goes on
without, so a recorder may end at any moment. One thread does everything here; it holds no state of the job but which
process showed itself when, and which was asked for which file.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from threading import Event

from msgspec import Struct, field

from ...library import UsageError
from ..arguments import Failure
from . import wire
from .processes import (
    DAEMON,
    SOCKET_FOLDER,
    TRACE_FOLDER,
    environment,
    has_children,
    is_alive,
    prepared,
    rank_of,
    ranks_here,
)
from .road import Arrival, Ask, Result, Stopped, disk_is_full, new_stem
from .sockets import MOST_FOLDER, Endpoint, private_folder, sweep

TICK = 0.1
"""Seconds between two looks at the files and at the time."""
_TURN = 12.0
"""Seconds in which every process has asked at least once: they ask every 5 to 10 s."""
_ROUND_UP = 10
"""Ranks that count steps begin at the next multiple of this, each from when it asked."""
_AGAIN = 2
"""How often a process is asked again whose recording is empty."""
_LATE = 2.0
"""Seconds before a common start until which a process can still be told of it."""


class _Request(Struct):
    """One process that was asked: its file, and whether it has been seen to record since. One that is done and
    ``is_idle`` has recorded nothing of its own, as a launcher."""

    pid: int
    ancestors: tuple[int, ...]
    rank: int | None
    asked_at: float
    file: Arrival
    began: bool = False
    is_done: bool = False
    is_idle: bool = False


class _Round(Struct):
    """One recording of the job. ``start_ms``: the moment at which its ranks begin, ms since 1970; 0: at once.
    ``empty``: how many empty recordings each process has made."""

    ask: Ask
    stem: str
    begun: float
    deadline: float
    start_ms: int = 0
    size: int = 0
    requests: dict[int, _Request] = field(default_factory=dict)
    empty: Counter[int] = field(default_factory=Counter)

    def put_off(self, until: float) -> None:
        """There is progress: give up later."""
        self.deadline = max(self.deadline, until + self.ask.timeout)


class KinetoJob:
    """A job that asks on a socket: one we started, or processes that run already."""

    def __init__(
        self, endpoints: Sequence[Endpoint], *, process: subprocess.Popen[bytes] | None = None,
        pids: Sequence[int] = (),
    ) -> None:
        """``pids``: only these processes and what they started; empty: all that ask."""
        self.stopping = Event()
        self.dropped = 0
        self._endpoints, self._process, self._pids = list(endpoints), process, tuple(pids)
        self._born: dict[int, float] = {}
        self._launchers = set[int]()
        self._round: _Round | None = None
        self._checked_at = 0.0

    def record(self, ask: Ask) -> Result:
        """Ask every process of the job once, and wait until what they write is whole."""
        if not all([one.take_back() for one in self._endpoints]):
            raise Failure("another recorder is recording this job", "Wait until it has ended.", status=1)
        begun = time.monotonic()
        current = self._round = _Round(ask, new_stem(ask.out), begun, begun + ask.timeout)
        while True:
            for message, endpoint, address in self._serve(TICK):
                self._answer(current, message, endpoint, address)
            if self.stopping.is_set():
                raise Stopped
            now = time.monotonic()
            self._look(current, now)
            if self._is_complete(current, now) or self._has_ended or now >= current.deadline or _is_stuck(current, now):
                return self._outcome(current)

    def _answer(self, current: _Round, message: wire.Message, endpoint: Endpoint, address: str | bytes) -> None:
        """Ask a process that could record now, or put it off."""
        ask, pid, now = current.ask, message.pids[0], time.monotonic()
        if now - self._born[pid] < ask.after or pid in current.requests:
            endpoint.answer(wire.NOTHING, address)
            return
        several = max(ranks_here(pid), len(self._alive())) > 1
        if several and not current.start_ms and ask.cycles is None:
            current.start_ms = int((time.time() + _TURN) * 1000)
        waits = max(0.0, current.start_ms / 1000 - time.time())
        told, names = _names(ask.out, current.stem, pid)
        settings = wire.settings(
            told, ms=ask.ms << current.empty[pid], cycles=ask.cycles, stack=ask.stack,
            start_ms=current.start_ms if waits > _LATE else 0, round_up=_ROUND_UP if several else 1)
        if endpoint.answer(settings, address):
            file = Arrival(names, time.time() - 1)
            current.requests[pid] = _Request(pid, message.pids[1:], rank_of(pid), now, file)
            current.put_off(now + waits + ask.ms / 1000)

    def _look(self, current: _Round, now: float) -> None:
        """See what has been written, and ask again where it is empty."""
        if not current.requests and self._born:
            current.put_off(min(self._born.values()) + current.ask.after)
        for one in list(current.requests.values()):
            if not one.is_done and one.file.look(now, not is_alive(one.pid)):
                one.is_done, one.is_idle = True, one.file.is_empty
                if one.is_idle:
                    self._ask_again(current, one)
        size = sum(one.file.size for one in current.requests.values())
        if size != current.size:
            current.size = size
            current.put_off(now)

    def _ask_again(self, current: _Round, one: _Request) -> None:
        """Ask a process again, for twice the time, whose recording is empty: libkineto ends one when it was meant to
        end, however late it began, and on a busy machine a short one can be over by then. Not so a launcher."""
        if one.pid not in self._launchers and is_alive(one.pid) and current.empty[one.pid] < _AGAIN:
            current.empty[one.pid] += 1
            if one.file.path is not None:
                one.file.path.unlink(missing_ok=True)
            del current.requests[one.pid]

    def idle(self, seconds: float) -> None:
        """Answer "nothing" for so long, and let another recorder have the job if one comes."""
        end = time.monotonic() + seconds
        for one in self._endpoints:
            one.lend()
        while not self.stopping.is_set() and not self.over and (left := end - time.monotonic()) > 0:
            for _, endpoint, address in self._serve(min(TICK, left)):
                endpoint.answer(wire.NOTHING, address)
            if time.monotonic() - self._checked_at > 1:
                self._checked_at = time.monotonic()
                for one in self._endpoints:
                    if one.take_back():
                        one.lend()

    @property
    def over(self) -> str:
        """Why nothing more can be recorded."""
        return "the job has ended" if self._has_ended else ""

    @property
    def exit_status(self) -> int | None:
        """The status of the command; negative: the signal that ended it."""
        return None if self._process is None else self._process.poll()

    def close(self) -> None:
        """Take the sockets away."""
        for one in self._endpoints:
            one.remove()

    @property
    def _has_ended(self) -> bool:
        running = self.exit_status is None if self._process is not None else any(map(is_alive, self._pids))
        return not running and not self._alive()

    def _alive(self) -> list[int]:
        """The processes that have shown themselves and still live."""
        return [pid for pid in self._born if is_alive(pid)]

    def _serve(self, seconds: float) -> list[tuple[wire.Message, Endpoint, str | bytes]]:
        """Take what comes within that time. Returns the requests of processes that could record now, to be answered."""
        able = []
        readable, _, _ = select.select(self._endpoints, [], [], seconds)
        for endpoint in readable:
            for data, address, sender in endpoint.datagrams():
                message = wire.parse(data)
                if message is None or not address:
                    self.dropped += 1
                    continue
                if self._pids and not {sender, *message.pids} & set(self._pids) and message.kind == "req":
                    endpoint.answer(wire.NOTHING, address)  # somebody else's job on the same socket
                    continue
                pid = message.pids[0]
                self._launchers.update(message.pids[1:])
                if message.kind == "ctxt":
                    if not self._pids:
                        self._born.setdefault(pid, time.monotonic())
                    endpoint.answer(wire.registered(max(1, len(self._born))), address)
                    continue
                self._born.setdefault(pid, time.monotonic())
                if message.ready:
                    able.append((message, endpoint, address))
                else:
                    if self._round is not None and pid in self._round.requests:
                        self._round.requests[pid].began = True
                    endpoint.answer(wire.NOTHING, address)
        return able

    def _is_complete(self, current: _Round, now: float) -> bool:
        """Whether all processes of the job were asked, as far as is known, and none still writes."""
        requests = current.requests
        if not requests or any(not one.is_done and is_alive(one.pid) for one in requests.values()):
            return False
        if all(one.is_idle and has_children(one.pid) for one in requests.values()):
            return False  # a launcher, whose ranks have not asked yet
        first, expected = min(one.asked_at for one in requests.values()), max(map(ranks_here, requests))
        everybody = len(requests) >= expected and all(pid in requests for pid in self._alive())
        return everybody or now - first > _TURN

    def _outcome(self, current: _Round) -> Result:
        requests = list(current.requests.values())
        whole = [one for one in requests if one.is_done and one.file.path is not None]
        if busy := [one for one in whole if not one.is_idle]:
            for one in whole:
                if one.is_idle and one.file.path is not None:
                    one.file.path.unlink(missing_ok=True)
            pids = {one.pid for one in busy}
            whole = [one for one in busy if pids.isdisjoint(one.ancestors)]  # a DataLoader's worker is no rank
        lost = [one for one in requests if not one.is_done]
        reason = self._why_nothing(current) if not requests else _why(lost[0], current.ask) if lost else ""
        if len(lost) > 1:
            reason += f" ({len(lost)} of {len(requests)} processes)"
        files = _placed(whole, current.ask.out, current.stem)
        return Result(files, len(requests), reason, time.monotonic() - current.begun)

    def _why_nothing(self, current: _Round) -> str:
        """Why no process was asked."""
        ended, after = self._has_ended, current.ask.after
        if current.empty:
            return "nothing ran in the job while it was recorded" + (", and it ended" if ended else "")
        if self._born:
            return f"the job ended before the {after:g} s of --after were over" if ended else (
                "the job was always busy recording: a profiler of its own may be running")
        if ended and self._process is not None:
            status = self._process.returncode
            by = f"was ended by signal {-status}" if status < 0 else f"exited with {status}"
            return f"the command {by} before it asked for a recording"
        if ended:
            return "the job ended before it asked for a recording"
        return (f"the job did not ask for a recording within {current.ask.timeout:g} s: it may not have imported "
                "PyTorch yet (--timeout waits longer), or its PyTorch is built without libkineto")


def _names(out: Path, stem: str, pid: int) -> tuple[Path, list[Path]]:
    """The name to tell the process, and those it may make of it."""
    allowed = environment(pid).get(TRACE_FOLDER)
    folder = Path(allowed) if allowed and not out.is_relative_to(allowed) else out
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    names = [folder / f"{stem}.{pid}_{pid}.json", folder / f"{stem}_{pid}.json", folder / f"{stem}.{pid}.json"]
    if not allowed and not out.is_relative_to("/tmp"):  # a kineto that writes to its own name instead
        names.append(Path(f"/tmp/libkineto_activities_{pid}.json"))
    return folder / f"{stem}.{pid}.json", names


def _is_stuck(current: _Round, now: float) -> bool:
    """Whether waiting is in vain: the disk is full and nothing has grown for a while."""
    waiting = [one for one in current.requests.values() if not one.is_done]
    return bool(waiting) and all(one.file.is_quiet(now) for one in waiting) and disk_is_full(current.ask.out)


def _why(one: _Request, ask: Ask) -> str:
    """Why a process that was asked has written nothing whole."""
    part = one.file.part
    if disk_is_full(ask.out if part is None else part.parent):
        return f"the disk of {ask.out} is full" + (f"; {part} is cut" if part else "")
    if not is_alive(one.pid):
        return f"process {one.pid} ended " + (f"while it was writing: {part} is cut" if part else "before it wrote")
    if part is not None:
        return f"process {one.pid} has not finished {part} within {ask.timeout:g} s"
    if one.began:
        return f"process {one.pid} records, and wrote nothing within {ask.timeout:g} s"
    return f"process {one.pid} did not begin to record: " + (
        "it may mark no steps (--ms records by time)" if ask.cycles else "a profiler of its own may be running")


def _placed(whole: Sequence[_Request], out: Path, stem: str) -> list[Path]:
    """The files where they belong: one in ``out``; several in a folder of their own, with the names of ranks."""
    ranks = [one.rank for one in whole]
    named = None not in ranks and len(set(ranks)) == len(ranks)
    files = []
    for at, one in enumerate(sorted(whole, key=lambda one: one.rank or 0 if named else one.pid)):
        assert one.file.path is not None
        name = one.file.path.name if one.file.path.name.startswith(stem) else f"{stem}.{one.pid}.json"
        if len(whole) > 1:
            name = f"{stem}/rank-{one.rank}.json" if named else f"{stem}/process-{at}.json"
        files.append(_moved(one.file.path, out / name))
    return files


def _moved(file: Path, target: Path) -> Path:
    """The file at its new place; where it cannot be moved, where it is."""
    if file == target:
        return file
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(file, target)
    except OSError:
        return file
    return target


def command(words: Sequence[str], out: Path, socket: str | None, shared: bool, output: Path | None) -> KinetoJob:
    """Start the command so that it can be recorded. ``socket``: the folder to ask in instead of a private one;
    ``output``: the file for what it prints. Raises Failure, UsageError."""
    sweep()
    if socket is not None and len(os.fsencode(os.path.abspath(socket))) > MOST_FOLDER:
        raise UsageError(f"--socket {socket}: the path has more than {MOST_FOLDER} characters, so the job could not "
                         "open its own socket there")
    folder = None if shared else os.path.abspath(socket) if socket is not None else str(private_folder())
    if socket is not None:
        os.makedirs(folder or "", 0o700, exist_ok=True)
    endpoint = Endpoint(folder)
    try:
        process = _start(words, folder, out, output)
    except Failure:
        endpoint.remove()
        raise
    return KinetoJob([endpoint], process=process, pids=[process.pid] if shared else [])


def processes(pids: Sequence[int], socket: str | None, shared: bool) -> KinetoJob:
    """Processes that run already. Raises Failure, status 3, if one of them cannot be asked; then none is."""
    sweep()
    folders = dict.fromkeys(prepared(pid, shared, socket) for pid in pids)
    endpoints: list[Endpoint] = []
    try:
        for folder in folders:
            endpoints.append(Endpoint(folder))
    except Failure:
        for one in endpoints:
            one.remove()
        raise
    return KinetoJob(endpoints, pids=pids)


def _start(words: Sequence[str], folder: str | None, out: Path, output: Path | None) -> subprocess.Popen[bytes]:
    surroundings = {**os.environ, DAEMON: "1", TRACE_FOLDER: str(out)}
    surroundings.pop(SOCKET_FOLDER, None)
    if folder is not None:
        surroundings[SOCKET_FOLDER] = folder
    with contextlib.ExitStack() as stack:
        printed = stack.enter_context(output.open("ab")) if output is not None else None
        try:
            return subprocess.Popen(list(words), env=surroundings, stdout=printed, stderr=printed,
                                    stdin=None if printed is None else subprocess.DEVNULL)
        except OSError as error:
            raise Failure(f"{words[0]}: {(error.strerror or str(error)).lower()}") from None
