"""The command ``record``: a recording of a job that runs, by whatever door it has.

A command and a process are asked through libkineto's daemon socket, an engine over HTTP, a JAX program through its
profiler server; ``--nsys`` and ``--rocprof`` run the installed tool around a command. A job is never ended or changed
from here: what it does not hear from us it goes on without.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from ...library import UsageError
from ..arguments import FINE, GATE_FAILED, Command, Failure, whole_number

if TYPE_CHECKING:
    from .live import Rounds
    from .road import Ask, Result, Road

MS, AFTER, TIMEOUT, KEEP = 500, 2.0, 120.0, 20
_PRINTED = "output.txt"
"""What a command prints while the app has the screen, in the folder of the recordings."""
_HELP = ("Record a job that runs: a command, a process, a serving engine or a JAX program.")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "job", nargs="*", metavar="JOB", help="-- COMMAND… to start one, PID… of jobs started to be recorded, http://… "
        "of an SGLang or vLLM, profiler://HOST:PORT of a JAX program")
    parser.add_argument("-o", "--output", metavar="DIR", default="recorded", help="folder for the files; default: "
                        "recorded (of a vLLM: its torch_profiler_dir)")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--ms", type=whole_number, metavar="N", help=f"how long to record; default: {MS}")
    length.add_argument("-n", "--cycles", type=whole_number, metavar="CYCLES",
                        help="record this many steps instead, where the job marks them")
    parser.add_argument("--after", type=_seconds, metavar="S", help="record that long after the job's first sign of "
                        f"life, in seconds; default: {AFTER:g} of a command, else 0")
    parser.add_argument("--stack", action="store_true", help="record Python call stacks too: costs more")
    parser.add_argument("--every", type=_seconds, metavar="S", help="record again every S seconds until ^C or the "
                        "job's end")
    parser.add_argument("--keep", type=whole_number, metavar="N", help="with --every: keep the newest N recordings; "
                        f"default: {KEEP}")
    parser.add_argument("--timeout", type=_seconds, metavar="S", default=TIMEOUT,
                        help=f"give up after so many seconds without any progress; default: {TIMEOUT:g}")
    parser.add_argument("--open", action="store_true", help="show each recording in the app, beside the one before; "
                        "there R records again")
    parser.add_argument("--socket", metavar="DIR", help="folder for the socket on which a command asks; default: a "
                        "private one")
    parser.add_argument("--shared-socket", action="store_true", help="listen on the name that jobs without "
                        "KINETO_IPC_SOCKET_DIR ask on; every user of the machine can send there")
    tool = parser.add_mutually_exclusive_group()
    tool.add_argument("--nsys", action="store_true", help="run the command in Nsight Systems")
    tool.add_argument("--rocprof", action="store_true", help="run the command in rocprofv3")
    parser.add_argument("--format", choices=("text", "json"), default="text",
                        help="json: the last line on stdout is an object with asked, written, job and dropped")


def _record(arguments: argparse.Namespace) -> int:
    _refuse_what_does_not_fit(arguments)
    with _signals():
        road, ask = _road(arguments)
        try:
            return _Run(arguments, road, ask).status()
        finally:
            road.close()


def _refuse_what_does_not_fit(arguments: argparse.Namespace) -> None:
    """Raise UsageError for options that contradict each other."""
    if not arguments.job and not arguments.command:
        raise UsageError("name what to record", "As in: warplens record -- python train.py; or a PID, or http://….")
    if arguments.job and arguments.command is not None:
        raise UsageError(f"give {arguments.job[0]} or a command after --, not both")
    kind = _kind(arguments)
    if (arguments.nsys or arguments.rocprof) and kind != "command":
        raise UsageError("--nsys and --rocprof run a command: warplens record --nsys -- COMMAND")
    if (arguments.nsys or arguments.rocprof) and (arguments.every or arguments.cycles):
        raise UsageError("--nsys and --rocprof record a command once, by time: --ms and --after")
    if (arguments.socket or arguments.shared_socket) and kind not in ("command", "process"):
        raise UsageError("--socket and --shared-socket are for a command or a process")
    if arguments.socket and arguments.shared_socket:
        raise UsageError("give --socket or --shared-socket, not both")
    if arguments.keep and arguments.every is None and not arguments.open:
        raise UsageError("--keep goes with --every or --open")
    if arguments.keep == 1 and arguments.open:
        raise UsageError("--keep 1 leaves no recording to compare with; --open needs 2")
    if arguments.every is not None and arguments.every < 1:
        raise UsageError("--every takes a second or more")
    if kind == "server" and arguments.cycles:
        raise UsageError("a profiler server counts no steps", "Record by time: --ms.")


def _kind(arguments: argparse.Namespace) -> str:
    """What JOB is: command, process, engine or server. Raises UsageError."""
    words = arguments.job
    if arguments.command:
        return "command"
    if all(word.isascii() and word.isdigit() for word in words):
        return "process"
    if len(words) == 1 and words[0].startswith(("http://", "https://")):
        return "engine"
    if len(words) == 1 and words[0].startswith("profiler://"):
        return "server"
    raise UsageError(f"{words[0]} is neither a process number nor an address",
                     f"To run a command: warplens record -- {shlex.join(words)}")


def _road(arguments: argparse.Namespace) -> tuple[Road, Ask]:
    """The way to the job, and what is wanted of it. Raises Failure, UsageError."""
    from .road import Ask
    from .wire import can_be_sent

    kind, out = _kind(arguments), Path(arguments.output).absolute()
    if kind in ("command", "process") and not can_be_sent(out):
        raise UsageError(f"-o {arguments.output}: libkineto cannot be told a path with #, =, .., .json or control "
                         "characters")
    out.mkdir(parents=True, exist_ok=True)
    wait = arguments.after if arguments.after is not None else AFTER if kind == "command" and not (
        arguments.nsys or arguments.rocprof) else 0.0
    ask = Ask(out, arguments.ms or MS, arguments.cycles, wait, arguments.stack, arguments.timeout)
    return _ways(kind, arguments, ask), ask


def _ways(kind: str, arguments: argparse.Namespace, ask: Ask) -> Road:
    if kind == "engine":
        from .engine import Engine

        return Engine(arguments.job[0])
    if kind == "server":
        from .tools import ProfilerServer

        return ProfilerServer(arguments.job[0])
    if arguments.nsys or arguments.rocprof:
        from .tools import Wrapped

        return Wrapped("nsys" if arguments.nsys else "rocprof", arguments.command, arguments.ms)
    if sys.platform != "linux":
        raise Failure("libkineto asks a daemon on Linux only", "On other systems: torch.profiler in the program.")
    from .kineto import command, processes

    if kind == "command":
        output = ask.out / _PRINTED if arguments.open and _has_terminal() else None
        return command(arguments.command, ask.out, arguments.socket, arguments.shared_socket, output)
    return processes([int(word) for word in arguments.job], arguments.socket, arguments.shared_socket)


class _Run:
    """One run of the command: records, and says what came of it."""

    def __init__(self, arguments: argparse.Namespace, road: Road, ask: Ask) -> None:
        from .live import Rounds

        self._arguments, self._road, self._as_json = arguments, road, arguments.format == "json"
        self._rounds: Rounds = Rounds(road, ask, arguments.every, arguments.keep or KEEP)
        self._reason = ""
        self._written: list[Path] = []

    def status(self) -> int:
        """Do it all, and return the exit status. Raises Failure where nothing was recorded."""
        try:
            self._record_once()
            while self._arguments.every is not None and not self._can_show and self._rounds.wait():
                self._record_once()
            if self._can_show:
                return self._show()
            self._wait_for_command()
        finally:
            self._end()
        if not self._written:
            raise Failure(self._reason or "nothing was recorded", status=GATE_FAILED)
        if self._reason and self._arguments.every is None:  # which has said it
            _say(self._reason)
        return FINE

    @property
    def _can_show(self) -> bool:
        """Whether there is a recording for the app, and the app is wanted."""
        return bool(self._arguments.open and _has_terminal() and self._rounds.recordings)

    def _record_once(self) -> None:
        """Record and say what came of it; with ``--every`` a recording that fails is not the last one."""
        try:
            self._take(self._rounds.next())
        except Failure as error:
            if self._arguments.every is None or error.status != GATE_FAILED:
                raise
            self._reason = error.message
            _say(error.message)

    def _take(self, recording: Result) -> None:
        """Open a recording and say what it holds."""
        from ...analysis.core.text import display
        from ..output import print_path
        from .outcome import read

        self._reason = recording.reason
        if not recording.files:
            if self._arguments.every is not None:
                _say(recording.reason)
            return
        readings = {recording.path: read(recording.path)}
        if readings[recording.path].fault and len(recording.files) > 1:  # processes that are not the ranks of one job
            readings = {file: read(file) for file in recording.files}
        for path, reading in readings.items():
            if reading.fault:
                self._reason = reading.fault
                recording.files = [file for file in recording.files if file not in (path, path / file.name)]
        if not recording.files:
            self._rounds.recordings.pop()
            return
        _say(f"recorded in {recording.seconds:.1f} s")
        for path, reading in readings.items():
            if not reading.fault and not self._as_json:
                print_path(path)
            if reading.sentence:
                print(f"  {display(reading.sentence)}", file=sys.stderr if self._as_json else sys.stdout, flush=True)

    def _wait_for_command(self) -> None:
        """Stay until a command that was started has ended."""
        while self._arguments.command and not self._road.over:
            self._road.idle(60.0)

    def _show(self) -> int:
        """Show the recording in the app, and those that follow."""
        from ..open import open_recording_in_app
        from .live import Live

        status = open_recording_in_app(str(self._rounds.recordings[-1].path), Live(self._rounds, self._road))
        folder = self._arguments.output
        _say(f"{len(self._rounds.recordings)} of the recordings are in {folder}")
        if self._arguments.command and not self._road.over:
            _say(f"the command goes on; what it prints is in {folder}/{_PRINTED}")
        return status

    def _end(self) -> None:
        """The last lines: how the command ended, and with ``--format json`` what was recorded."""
        self._written = [file for one in self._rounds.recordings for file in one.files]
        status = self._road.exit_status
        if status is not None:
            _say(f"the command exited with {status}" if status >= 0 else f"signal {-status} ended the command")
        if self._as_json:
            print(json.dumps({"asked": self._rounds.asked, "written": [os.fspath(file) for file in self._written],
                              "job": status, "dropped": self._road.dropped}), flush=True)


def _has_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def _say(text: str) -> None:
    from ...analysis.core.text import display

    print(f"warplens: {display(text)}", file=sys.stderr)


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """While it lasts, SIGTERM and SIGHUP end the command in order, with status 128 + n."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before = {}
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        with contextlib.suppress(ValueError):  # not in the main thread
            before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e7:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds")
    return value


COMMAND = Command("record", _HELP, _arguments, _record, wraps=True)
