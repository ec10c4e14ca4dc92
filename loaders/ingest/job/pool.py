"""A process pool that applies a function to many arguments, such as reading several recordings at once. A crash costs
only the process it happens in.

A task calls a module-level function with an argument and a callback for progress messages; everything is pickled. Each
process takes one task after another over a pair of pipes. A process that dies during a task is replaced and the task
retried, because the machine may have been short of memory only temporarily. The processes end with their parent,
however it ends, because the pipe they read from is then closed.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

HEADER = struct.Struct("<Q")
TRIES = 2  # Attempts at a task whose process dies.
TASK_BYTES = 1536 << 20  # Expected peak memory of a process.
Tell = Callable[[object], None]


class TaskOutcome(Struct, frozen=True):
    """The result of task ``number``: a value or an error; or, if not ``ended``, a progress ``message`` from it."""

    number: int
    value: Any = None
    error: Exception | None = None
    message: object = None
    ended: bool = True


class WorkerDied(Exception):
    """The process died at every attempt at the task; ``status`` is its exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the process ended with status {status}")
        self.status = status


def most_workers(tasks: int, task_bytes: int = TASK_BYTES) -> int:
    """Number of processes to start: limited by cores, available memory and the number of tasks, but at least 1."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = available_bytes()
    room = processors if memory is None else int(memory / task_bytes)
    return max(1, min(tasks, processors, room))


def available_bytes() -> int | None:
    """Memory available on the machine and within this process's cgroup limit; None if unknown."""
    limits = []
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            limits.append(int(line.split()[1]) << 10)
    limit, used = (_lines(f"/sys/fs/cgroup/memory.{name}")[:1] for name in ("max", "current"))
    if limit and used and limit[0].strip().isdigit() and used[0].strip().isdigit():
        limits.append(int(limit[0]) - int(used[0]))
    return min(limits, default=None)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except (OSError, ValueError):
        return []


def run(task: Callable[[Any, Tell], Any], arguments: Sequence[Any], workers: int) -> Iterator[TaskOutcome]:
    """Yield the outcome of each argument as it completes, and messages of tasks in between with ``ended`` false.

    Closing the iterator stops all processes.
    """
    pool = Pool(task, arguments, workers)
    try:
        yield from pool.outcomes()
    finally:
        pool.stop()


class Pool:
    """Processes that work on the arguments from construction until ``stop``."""

    def __init__(self, task: Callable[[Any, Tell], Any], arguments: Sequence[Any], workers: int) -> None:
        self._task, self._arguments = task, arguments
        self._left = deque((number, 1) for number in range(len(arguments)))
        self._outcomes: queue.SimpleQueue[TaskOutcome] = queue.SimpleQueue()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock, self._stopped = threading.Lock(), False
        threads = -(-most_workers(sys.maxsize) // max(workers, 1))
        self._environment = {
            **os.environ, "POLARS_MAX_THREADS": str(max(1, threads)), "OPENBLAS_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[4]), *filter(
                None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]),
        }
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    def outcomes(self) -> Iterator[TaskOutcome]:
        """Outcomes and messages as they arrive, until every argument has an outcome."""
        ended = 0
        while ended < len(self._arguments):
            outcome = self._outcomes.get()
            ended += outcome.ended
            yield outcome

    def stop(self) -> None:
        """Kill all processes."""
        with self._lock:
            self._stopped = True
            self._left.clear()
            for process in self._processes:
                process.kill()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        """Thread body: run tasks in one process, replacing it if it dies, until there are none left."""
        process: subprocess.Popen[bytes] | None = None
        while True:
            with self._lock:
                if self._stopped or not self._left:
                    break
                number, tries = self._left.popleft()
                if process is None:
                    process = self._start()
            if not self._answered(process, number):
                status, process = self._end(process), None
                self._again(number, tries, status)
        if process is not None:
            self._end(process)

    def _start(self) -> subprocess.Popen[bytes]:
        # -P: do not import modules from the working directory, which may hold untrusted files.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=None if os.environ.get("WARPLENS_DEBUG") else subprocess.DEVNULL, start_new_session=True,
            env=self._environment,
        )
        self._processes.add(process)
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        """Close the pipes, which ends the process; returns its exit status."""
        for pipe in filter(None, (process.stdin, process.stdout)):
            with contextlib.suppress(OSError):  # flushing data to a dead process
                pipe.close()
        status = process.wait()
        with self._lock:
            self._processes.discard(process)
        return status

    def _answered(self, process: subprocess.Popen[bytes], number: int) -> bool:
        """Send the task to the process and queue its messages and outcome; returns False if the process dies."""
        assert process.stdin is not None and process.stdout is not None
        try:
            send(process.stdin, (self._task, self._arguments[number]))
            while (message := receive(process.stdout)) is not None:
                kind, value = message
                if kind == "said":
                    self._outcomes.put(TaskOutcome(number, message=value, ended=False))
                    continue
                error = value if kind == "error" else None
                self._outcomes.put(TaskOutcome(number, None if error else value, error))
                return True
        except (OSError, EOFError, pickle.UnpicklingError):
            process.kill()
        return False

    def _again(self, number: int, tries: int, status: int) -> None:
        with self._lock:
            if not self._stopped and tries < TRIES:
                self._left.append((number, tries + 1))
                return
        self._outcomes.put(TaskOutcome(number, error=WorkerDied(status)))


def send(pipe: IO[bytes], message: object) -> None:
    """Write one message. Raises OSError if the other end is closed."""
    body = pickle.dumps(message)
    pipe.write(HEADER.pack(len(body)) + body)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """The next message; None at the end of the pipe, even if that is in the middle of a message."""
    header = pipe.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    (size,) = HEADER.unpack(header)
    body = pipe.read(size)
    return pickle.loads(body) if len(body) == size else None


def serve() -> None:
    """Main loop of a pool process: run tasks until the input pipe is closed."""
    from .. import spill

    orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
    source = os.fdopen(os.dup(0), "rb")
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # keep output of libraries out of the message pipe

    def listen() -> None:
        while (order := receive(source)) is not None:
            orders.put(order)
        spill.remove_all()
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        task, argument = orders.get()
        try:
            answer = ("value", task(argument, lambda message: send(out, ("said", message))))
        except Exception as error:
            answer = ("error", _plain(error))
        send(out, answer)


def _plain(error: Exception) -> Exception:
    """The error, or a RuntimeError with its text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


if __name__ == "__main__":
    serve()
