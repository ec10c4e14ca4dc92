"""The datagrams of libkineto's daemon socket, in bytes: what a job sends, and what it is answered.

libkineto (``IpcFabricConfigClient.cpp``, ``ipcfabric/FabricManager.h``) speaks to Meta's dynolog over AF_UNIX
datagrams, little-endian: the length of the body (u64), its type (32 characters), the body. ``ctxt`` (i32 gpu, i32 pid,
i64 job) registers a process that has a GPU and is answered with their number (i32). ``req`` (i32 kinds, i32 n, i64 job,
i32 pids[n]: the process and its ancestors) asks for the settings of a recording every few seconds and is answered with
text, empty while none is wanted. Kinds is a set of bits; 2, activities, is only set while the process could record.

What comes in is not trusted: anything that is not exactly one of these is dropped, and never answered.
"""

from __future__ import annotations

import struct
from pathlib import Path

from msgspec import Struct

MOST_BYTES = 1 << 16
"""The longest datagram that is read."""
_HEAD = struct.Struct("<Q32s")
_CONTEXT = struct.Struct("<iiq")
_REQUEST = struct.Struct("<iiq")
_ACTIVITIES = 2
_WARM_UP_SECONDS = 1
"""CUPTI needs a moment after it is switched on; libkineto's own 5 s would make every recording 4 s later."""


class Message(Struct, frozen=True):
    """A datagram of a job. ``pids``: the process, then its ancestors; ``ready``: settings would be followed now."""

    kind: str
    pids: tuple[int, ...]
    ready: bool = False


def parse(datagram: bytes) -> Message | None:
    """The message, or None for a datagram to drop."""
    if not _HEAD.size <= len(datagram) <= MOST_BYTES:
        return None
    size, kind = _HEAD.unpack_from(datagram)
    body, kind = datagram[_HEAD.size :], kind.rstrip(b"\0")
    if size != len(body):
        return None
    if kind == b"ctxt" and size >= _CONTEXT.size:
        _, pid, _ = _CONTEXT.unpack_from(body)
        return Message("ctxt", (pid,)) if pid > 0 else None
    if kind == b"req" and size >= _REQUEST.size:
        kinds, count, _ = _REQUEST.unpack_from(body)
        if count < 1 or 4 * count > size - _REQUEST.size:
            return None
        pids = struct.unpack_from(f"<{count}i", body, _REQUEST.size)
        return Message("req", pids, bool(kinds & _ACTIVITIES)) if pids[0] > 0 else None
    return None


def packet(kind: str, body: bytes) -> bytes:
    """A datagram of that type."""
    return _HEAD.pack(len(body), kind.encode()) + body


def registered(number: int) -> bytes:
    """The answer to ``ctxt``: how many processes are registered."""
    return packet("ctxt", struct.pack("<i", number))


def settings(file: Path, *, ms: int, cycles: int | None, stack: bool, start_ms: int = 0, round_up: int = 1) -> bytes:
    """The answer to ``req`` that begins a recording into ``file`` (whose name gets the pid as well).

    It lasts ``ms``, or ``cycles`` steps from the next multiple of ``round_up`` on; a process that counts no steps then
    records ``ms`` instead. ``start_ms``: begin at this time (ms since 1970) rather than at once, so that the ranks of a
    job, which ask at different times, record the same steps.
    """
    lines = [f"ACTIVITIES_LOG_FILE={file}", f"ACTIVITIES_DURATION_MSECS={ms}"]
    if cycles is None:
        lines += [f"PROFILE_START_TIME={start_ms}", f"ACTIVITIES_WARMUP_PERIOD_SECS={_WARM_UP_SECONDS}"]
    else:
        lines += ["PROFILE_START_ITERATION=0", f"PROFILE_START_ITERATION_ROUNDUP={round_up}",
                  f"ACTIVITIES_ITERATIONS={cycles}"]
    lines += ["PROFILE_REPORT_INPUT_SHAPES=true", f"PROFILE_WITH_STACK={str(stack).lower()}",
              "PROFILE_PROFILE_MEMORY=false", "PROFILE_WITH_FLOPS=false", "PROFILE_WITH_MODULES=false"]
    return packet("req", ("\n".join(lines) + "\n").encode())


NOTHING = packet("req", b"")
"""The answer to ``req`` while no recording is wanted."""


def can_be_sent(folder: Path) -> bool:
    """Whether libkineto can be told to write there: it cuts lines at ``#`` and ``=``, and puts the pid before the first
    ``.json`` of the path."""
    text = str(folder)
    return text.isprintable() and text == text.strip() and not any(word in text for word in ("#", "=", ".json", ".."))
