"""Fuzz test of the app in a real terminal: random keys, sizes and signals on random recordings; prints how each ended.

Each session opens one or two recordings from the given folders; one in four of the single files is truncated. The app
then gets keys, resizes and stop signals, and finally ``q``, SIGTERM or SIGHUP. A stop may take effect after the SIGCONT
that follows it, so SIGCONT is sent again at the end. A session passes if the process exits within 40 s without a
traceback; status 3 means that the recording is unreadable. Needs a POSIX system.

    python benchmarks/attack.py --sessions 25 --seed 1 FOLDER_OR_FILE...
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "tui"), str(ROOT / ".dev")]

from terminal import Session  # noqa: E402  (it lies among the tests)

KEYS = [
    *(bytes([code]) for code in b"0123456789abcdfghijklmnoprstuvwxyzABGNPRTVXY/?#+-[](){}<>,.:=|~!@'\"`_ \t\r\n\x7f"),
    *(b"\x1b" + rest for rest in b"|[A|[B|[C|[D|[5~|[6~|[H|[F|[Z|8|\x1b".split(b"|")),
    b"\x10", b"\x0c", b"\x04", b"/gemm\r", b"ftotal>1ms\r", b"\x1b[200~pasted\x1b[201~",
    b"\x1b[<0;40;12M\x1b[<0;40;12m", b"\x1b[<64;40;12M",  # a click, the wheel
]
SIZES = [(120, 40), (80, 24), (200, 60), (60, 20), (40, 10), (10, 5), (3, 3), (1, 1), (300, 90)]
LIMIT_S = 40
MOST_BYTES = 60 << 20
"""Larger recordings are left out: a session tests keys, not reading."""


def recordings(places: list[Path]) -> list[Path]:
    """All given files and all files below the given folders that are small enough to open at once."""
    files = [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("*")))]
    return [file for file in files if file.is_file() and 0 < file.stat().st_size < MOST_BYTES]


def drawn(files: list[Path], chance: random.Random, folder: Path) -> list[str]:
    """One or two random recordings; a quarter of the single ones truncated."""
    chosen = chance.sample(files, min(len(files), chance.choice((1, 1, 2))))
    if len(chosen) == 1 and chance.random() < 0.25:
        data = chosen[0].read_bytes()
        cut = folder / chosen[0].name
        cut.write_bytes(data[: len(data) * chance.randrange(10, 95) // 100])
        chosen = [cut]
    return [str(file.resolve()) for file in chosen]


def finish(session: Session, how: str) -> int | None:
    """End the session by key or signal; its exit status, or None if it still runs after ``LIMIT_S``."""
    end = time.monotonic() + LIMIT_S
    told = 0.0
    while time.monotonic() < end:
        pid, status = os.waitpid(session.pid, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() - told > 2 and (not told or how == "q"):
            told = time.monotonic()
            with contextlib.suppress(OSError):
                if how == "q":
                    session.send(b"\x1b\x1bq")
                else:
                    os.kill(session.pid, signal.Signals[how])
                os.kill(session.pid, signal.SIGCONT)
        time.sleep(0.05)
    return None


def attack(files: list[Path], seed: int, keys: int, folder: Path) -> str:
    """Run one session, print its line, and return its result."""
    chance = random.Random(seed)
    paths = drawn(files, chance, folder)
    homes = {name: str(folder) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    session = Session([sys.executable, "-X", "faulthandler", "-m", "warplens", *paths], folder=folder, **homes)
    sent = resized = stopped = 0
    with contextlib.suppress(OSError):  # it ended by itself
        for _ in range(keys):
            if not session.alive:
                break
            draw = chance.random()
            if draw < 0.03:
                session.resize(*chance.choice(SIZES))
                resized += 1
            elif draw < 0.05:
                for number in (*chance.choice(((), (signal.SIGSTOP,), (signal.SIGTSTP,))), signal.SIGCONT):
                    os.kill(session.pid, number)
                    time.sleep(0.1)
                stopped += 1
            else:
                session.send(b"".join(chance.choices(KEYS, k=chance.choice((1, 1, 1, 2, 5)))))
                sent += 1
            time.sleep(chance.choice((0, 0.01, 0.05, 0.3)))
    how = chance.choice(("q", "SIGTERM", "SIGHUP"))
    early = not session.alive
    status = finish(session, how)
    output = session.since(0)
    if status is None:
        result = "still there"
    elif b"Traceback" in output or b"Fatal Python error" in output or status not in (0, 2, 3, 129, 130, 143):
        result = "fault"
    else:
        result = {0: "ended", 2: "ended", 3: "cannot be read"}.get(status, "ended by the signal")
    session.close()
    print(f"seed {seed}: {result}{' by itself' if early else ''}, status {status}, {how}, "
          f"{sent} sends, {resized} sizes, {stopped} stops, {' '.join(paths)}", flush=True)
    if result in ("fault", "still there"):
        (Path(tempfile.gettempdir()) / f"attack-{seed}.out").write_bytes(output)
    return result


def main() -> int:
    """Parse the command line, run the sessions and count the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("places", nargs="*", type=Path, default=[ROOT / "samples"])
    parser.add_argument("--sessions", type=int, default=25)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    files, ends = recordings(arguments.places), Counter[str]()
    for seed in range(arguments.seed, arguments.seed + arguments.sessions):
        with tempfile.TemporaryDirectory() as folder:
            ends[attack(files, seed, arguments.keys, Path(folder))] += 1
    print(", ".join(f"{count} {end}" for end, count in ends.most_common()))
    return int(bool(ends["fault"] or ends["still there"]))


if __name__ == "__main__":
    raise SystemExit(main())
