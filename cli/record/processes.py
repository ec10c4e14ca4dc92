"""What ``/proc`` says about the processes to record: whose they are, whether they live, how they were prepared."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from ..arguments import Failure

DAEMON, SOCKET_FOLDER, TRACE_FOLDER = "KINETO_USE_DAEMON", "KINETO_IPC_SOCKET_DIR", "KINETO_ONDEMAND_TRACE_DIR"
"""libkineto's variables: ask a daemon; the folder of its socket; the only folder it may be told to write to (kineto of
August 2026 and later; else /tmp)."""
_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_RANKS_HERE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE")
MOST_RANKS = 1024
_STARTING = 10
"""Looks at the environment of a process that has none yet, 10 ms apart."""


def is_alive(pid: int) -> bool:
    """Whether the process exists and has not ended; one that nobody has waited for yet has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in (b"Z", b"X", b"x")


def environment(pid: int) -> dict[str, str]:
    """The environment the process was started with; empty where it cannot be read."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (line.partition(b"=") for line in raw.split(b"\0") if line)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def has_children(pid: int) -> bool:
    """Whether it has started processes that have not ended."""
    try:
        return any(file.read_text().split() for file in Path(f"/proc/{pid}/task").glob("*/children"))
    except OSError:
        return False


def ranks_here(pid: int) -> int:
    """How many processes the launcher of this one started on this machine, as far as its environment says."""
    return min(max(_numbers(pid, _RANKS_HERE), default=1), MOST_RANKS) or 1


def rank_of(pid: int) -> int | None:
    """Its rank in the job, as far as its environment says."""
    return next(iter(_numbers(pid, _RANK)), None)


def _numbers(pid: int, names: Sequence[str]) -> list[int]:
    given = environment(pid)
    return [int(value) for name in names if (value := given.get(name, "")).isascii() and value.isdigit()]


def prepared(pid: int, shared: bool, socket: str | None) -> str | None:
    """The folder of the socket on which this process asks, None for the abstract name. Raises Failure, status 3."""
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        raise Failure(f"there is no process {pid}") from None
    if owner != os.getuid():
        raise Failure(f"process {pid} belongs to another user")
    if not is_alive(pid):
        raise Failure(f"process {pid} has ended")
    given = environment(pid)
    for _ in range(_STARTING):  # the moment between two programs of one process, as in `job & warplens record $!`
        if given or not is_alive(pid):
            break
        time.sleep(0.01)
        given = environment(pid)
    if DAEMON not in given:  # libkineto looks at no value
        raise Failure(f"process {pid} was not started to be recorded",
                      f"Start it with `warplens record -- …` or {DAEMON}=1.")
    folder = given.get(SOCKET_FOLDER)
    if not folder:
        if not shared:
            raise Failure(f"process {pid} was started without {SOCKET_FOLDER}, so it asks on a name that every user of "
                          "this machine can take", "Add --shared-socket to listen there.")
        return None
    if not os.path.isabs(folder):
        raise Failure(f"{SOCKET_FOLDER} of process {pid} is a relative path ({folder})",
                      "Start it with an absolute one.")
    if socket is not None and os.path.realpath(socket) != os.path.realpath(folder):
        raise Failure(f"process {pid} asks in {folder}, not in {socket}")
    return folder
