"""The socket that jobs ask on: in a folder only this user can enter, held by one recorder, taken away afterwards.

A job binds a socket of its own in the same folder, and ends itself (libkineto's ``EndPoint::getName``) when an answer
comes from a name that does not begin with ``KINETO_IPC_SOCKET_DIR`` as it was given. So the name is never changed on
the way, and a folder in which a job still listens is left to it: without it that job could never be recorded again.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..arguments import Failure
from .processes import is_alive
from .wire import MOST_BYTES

with contextlib.suppress(ImportError):  # Windows, where no job asks on such a socket
    import fcntl

_NAME = "dynolog"
_PREFIX = "warplens-record-"
MOST_FOLDER = 107 - len("/dynoconfigclient") - 36
"""The longest folder, in bytes: the job's socket in it has a longer name than ours, and libkineto checks no length."""
_CREDENTIALS = struct.Struct("3i")
_AT_ONCE = 64
"""Datagrams taken in one go, so that a flood cannot keep the recorder from looking at the time."""


def private_folder() -> Path:
    """A new folder for a socket, mode 0700; its name holds this process. Raises Failure."""
    for place in _places():
        with contextlib.suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place))
            if len(os.fsencode(folder)) <= MOST_FOLDER:
                return folder
            folder.rmdir()
    raise Failure("no temporary folder can be written whose path has at most "
                  f"{MOST_FOLDER} characters, as the job's socket needs", "Name one with --socket DIR.")


def sweep() -> None:
    """Take away what recorders that were killed left behind."""
    for place in _places():
        for folder in place.glob(f"{_PREFIX}*-*"):
            with contextlib.suppress(OSError):
                named, state = re.fullmatch(rf"{_PREFIX}(\d+)-\w+", folder.name), folder.lstat()
                if named and stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() \
                        and not is_alive(int(named[1])):
                    with _held(folder):
                        clear(folder)


def clear(folder: Path) -> None:
    """Take our socket out of the folder, and those of jobs that have ended; the folder too when nothing is left."""
    for file in (*folder.glob(_NAME), *folder.glob("dynoconfigclient*")):
        with contextlib.suppress(OSError):
            if file.is_socket() and (file.name == _NAME or not _answers(file)):
                file.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def is_ours(folder: str | os.PathLike[str]) -> bool:
    """Whether it is a folder that ``private_folder`` made."""
    return Path(folder).name.startswith(_PREFIX)


def _places() -> list[Path]:
    """Where private folders may be, best first."""
    named = (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp")
    return list(dict.fromkeys(Path(one) for one in named if one and os.path.isabs(one) and os.path.isdir(one)))


def _answers(file: Path) -> bool:
    """Whether a process still listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(os.fspath(file))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """The folder, locked against other recorders. Raises OSError where one has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


class Endpoint:
    """A bound socket. ``folder`` None: the abstract name, which every user of the machine can reach."""

    def __init__(self, folder: str | None) -> None:
        """Bind it. Raises Failure where another recorder or daemon listens."""
        self.folder, self._lock = folder, -1
        self._bind()

    def _bind(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.setblocking(False)
        try:
            if self.folder is None:
                self._socket.bind(f"\0{_NAME}\0".encode())
            else:
                self._bind_in(self.folder)
        except OSError as error:
            self.close()
            where = f"{self.folder}/{_NAME}" if self.folder else f"@{_NAME}"
            raise Failure(f"the socket {where} cannot be opened: {(error.strerror or str(error)).lower()}") from None
        except Failure:
            self.close()
            raise

    def _bind_in(self, folder: str) -> None:
        if is_ours(folder):  # its recorder may be gone, and the job that asks there alive
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)
        self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if is_ours(folder) and os.fstat(self._lock).st_uid != os.getuid():
            raise Failure(f"{folder} belongs to another user")
        path = f"{folder}/{_NAME}"  # as the job was told: it compares the beginning
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Failure(f"another recorder listens in {folder}", "Wait until it has ended.") from None
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise Failure(f"{path} is there and no socket")
            if not is_ours(folder) and _answers(Path(path)):
                raise Failure(f"a daemon listens in {folder} already (dynolog?)")
            os.unlink(path)
        self._socket.bind(path)
        os.chmod(path, 0o600)
        self._node = os.lstat(path).st_ino

    def fileno(self) -> int:
        """For ``select``."""
        return self._socket.fileno()

    def datagrams(self) -> Iterator[tuple[bytes, str | bytes, int]]:
        """What has come, a bounded number: datagram, sender's address, sender's pid; of this user's processes alone.

        What another user sent is returned as an empty datagram."""
        for _ in range(_AT_ONCE):
            try:
                data, more, flags, sender = self._socket.recvmsg(MOST_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
            except OSError:
                return
            pid, uid = 0, -1
            for level, kind, value in more:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                    pid, uid, _ = _CREDENTIALS.unpack(value[: _CREDENTIALS.size])
            yield b"" if flags & socket.MSG_TRUNC or uid != os.getuid() else data, sender or "", pid

    def answer(self, packet: bytes, address: str | bytes) -> bool:
        """Send it; False if its receiver is gone, or does not read."""
        try:
            self._socket.sendto(packet, socket.MSG_DONTWAIT, address)
        except OSError:
            return False
        return True

    def lend(self) -> None:
        """Nothing is wanted for now: another recorder may take the place of this one, which goes on answering until
        then."""
        if self._lock >= 0 and self.folder is not None and is_ours(self.folder):
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def take_back(self) -> bool:
        """Listen again after ``lend``, if another recorder came and went. False while it is there."""
        if self.folder is None or self._lock < 0:
            return True
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        with contextlib.suppress(OSError):
            if os.lstat(f"{self.folder}/{_NAME}").st_ino == self._node:
                return True
        self.close()
        try:
            self._bind()
        except Failure:
            return False
        return True

    def close(self) -> None:
        """Close it; what lies in the folder stays."""
        self._socket.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def remove(self) -> None:
        """Close it and take it away, with the folder if it is a private one."""
        if self._lock < 0:
            self._socket.close()
            return
        folder = Path(self.folder or "")
        with contextlib.suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_ours(folder):
                clear(folder)
            elif os.lstat(folder / _NAME).st_ino == self._node:
                os.unlink(folder / _NAME)
        self.close()
