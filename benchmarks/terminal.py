"""Performance of the app in a terminal: bytes and time per key, slow link, idle, memory; next to a stock DataTable.

    python benchmarks/terminal.py [--rows 5000000] [--stock 100000] [--command warplens] [--trace FILE]

Drives the installed command in a pseudo-terminal at 120x40 on a synthetic trace with that many launches, written to a
temporary cache, and then while it loads a big trace. Times are medians from the key to the first byte of output; where
a line says so, to the last byte or to the expected text.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import shutil
import signal
import statistics
import struct
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import traces
from terminal_peers import BARE, EMPTY, STOCK

from warplens.loaders import schema
from warplens.loaders.ingest import cache, store
from warplens.loaders.kernel_table import LOADER
from warplens.loaders.trace import Info, Trace

QUESTION, ANSWER = b"\x1b[?2026$p", b"\x1b[?2026;2$y"
PAGE_DOWN, RIGHT = b"\x1b[6~", b"\x1b[C"


class Terminal:
    """A process in a pseudo-terminal; every chunk of output is kept with its time. ``rate`` limits reading, bytes/s."""

    def __init__(self, command: list[str], rate: float | None = None, columns: int = 120, **env: str) -> None:
        self.started = time.perf_counter()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
            terminal = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "TEXTUAL_ANIMATIONS": "none"}
            outside = dict(os.environ)
            outside.pop("PYTHONDONTWRITEBYTECODE", None)  # installed commands and peers have bytecode, too
            os.execvpe(command[0], command, {**outside, **terminal, **env})
        self.rate = rate
        self.chunks: list[tuple[float, bytes]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        tail = b""
        while True:
            try:
                chunk = os.read(self._fd, 1024 if self.rate else 1 << 20)
            except OSError:
                return
            if not chunk:
                return
            if self.rate:
                time.sleep(len(chunk) / self.rate)
            self.chunks.append((time.perf_counter(), chunk))
            seen = tail + chunk
            for _ in range(seen.count(QUESTION) - tail.count(QUESTION)):
                os.write(self._fd, ANSWER)
            tail = seen[-len(QUESTION) :]

    def wait(self, found: Callable[[bytes], bool], start: int = 0, limit: float = 300) -> float:
        """Seconds from the process start until ``found`` holds for the output since chunk ``start``."""
        end = time.perf_counter() + limit
        while time.perf_counter() < end:
            if found(b"".join(chunk for _, chunk in self.chunks[start:])):
                return self.chunks[-1][0] - self.started
            time.sleep(0.002)
        raise SystemExit("the screen never showed what was waited for")

    def quiet(self, seconds: float) -> None:
        """Wait until there was no output for that long."""
        while not self.chunks or time.perf_counter() - self.chunks[-1][0] < seconds:
            time.sleep(0.01)

    def rests(self) -> None:
        """Wait until the process neither sends output nor uses CPU."""
        used = -1.0
        while self.cpu() - used > 0.05:
            used = self.cpu()
            time.sleep(2.0)
        self.quiet(1.0)

    def key(self, keys: bytes, settle: float = 0.15) -> tuple[float, float, int]:
        """Milliseconds from the keys to the first and to the last byte of output, and the number of bytes."""
        start, at = len(self.chunks), time.perf_counter()
        os.write(self._fd, keys)
        end = at + 20
        while time.perf_counter() < end and (
            len(self.chunks) == start or time.perf_counter() - self.chunks[-1][0] < settle
        ):
            time.sleep(0.0005)
        got = self.chunks[start:]
        if not got:
            return float("nan"), float("nan"), 0
        return (got[0][0] - at) * 1e3, (got[-1][0] - at) * 1e3, sum(len(chunk) for _, chunk in got)

    def answer(self, keys: bytes, *said: bytes) -> tuple[float, bytes]:
        """Milliseconds from the keys until one of these texts appears, and which."""
        start, at = len(self.chunks), time.perf_counter()
        os.write(self._fd, keys)
        while time.perf_counter() < at + 20:
            for when, chunk in self.chunks[start:]:
                for text in said:
                    if text in chunk:
                        return (when - at) * 1e3, text
            time.sleep(0.0005)
        raise SystemExit(f"never answered: {said!r}")

    def children(self) -> bool:
        """Whether it has child processes."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return any((task / "children").read_text().strip() for task in tasks if task.exists())

    def keys(self, key: bytes, count: int) -> tuple[float, float]:
        """Median milliseconds to the first byte and median bytes of ``count`` key presses."""
        got = [self.key(key) for _ in range(count)]
        return statistics.median(one[0] for one in got), statistics.median(one[2] for one in got)

    def memory(self) -> int:
        """Resident memory in MB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) // 1024

    def cpu(self) -> float:
        """Seconds of CPU used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """Kill the process."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def launches(rows: int) -> Trace:
    """A synthetic recording of that many launches, with every column of the list filled."""
    rng = np.random.default_rng(1)
    names = [f"void cutlass::Kernel2<cutlass_80_tensorop_bf16_gemm_{a}x{b}_{c}_tn_align8>::Params"
             for a in (64, 128, 256) for b in (64, 128, 256) for c in range(8)]
    names += [f"triton_poi_fused_add_mul_{i}" for i in range(400)] + ["ncclDevKernel_AllReduce_Sum_bf16_RING_LL"]

    def text(values: list[str], at: np.ndarray) -> pl.Series:
        return pl.Series(values).gather(at).cast(pl.Categorical)

    frame = pl.DataFrame({
        "index": np.arange(rows), "start_ns": np.cumsum(rng.exponential(5000, rows)).astype(np.int64),
        "dur_ns": rng.lognormal(9, 1, rows).astype(np.int64), "name": text(names, rng.integers(0, len(names), rows)),
        "kind": text(["kernel", "memcpy", "collective"], rng.choice(3, rows, p=[0.9, 0.06, 0.04])),
        "device": text(["GPU 0"], np.zeros(rows, int)), "stream": rng.choice([7, 20, 24], rows),
        "grid": text([f"{i},1,1" for i in range(1, 2000)], rng.integers(0, 1999, rows)),
        "block": text(["128,1,1", "256,1,1"], rng.integers(0, 2, rows)),
        "tensor": rng.random(rows).astype(np.float32), "dram": rng.random(rows).astype(np.float32),
    })
    return Trace(Info("made-up", "made-up", LOADER.name), kernels=schema.conform("kernels", frame.lazy()))


def plant(folder: Path, rows: int) -> Path:
    """Make a file whose cache entry in ``folder`` holds that many launches."""
    os.environ["XDG_CACHE_HOME"] = os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = str(folder)
    file = folder / "big.txt"
    head = f"{'Kernel':<50}  {'Latency':>10} {'Tensor':>6} {'DRAM':>6}\n"
    file.write_text(f"{head}{'kernel':<50}| {1000:>10} {0.5:>6} {0.5:>6}\n")
    origin = cache.Origin(cache.stamps([file]), LOADER.name, LOADER.version, True)
    target = cache.begin()
    store.write((launches(rows),), target)
    cache.commit(origin, target)
    return file


def slow_link(command: list[str], shown: Callable[[bytes], bool], key: bytes = PAGE_DOWN) -> float:
    """Seconds the screen still changes after the last of sixty keys, sent at 30 per second over a 50 kB/s link."""
    terminal = Terminal(command, rate=50_000)
    terminal.wait(shown)
    terminal.quiet(1.5)
    for _ in range(60):
        os.write(terminal._fd, key)
        time.sleep(1 / 30)
    last = time.perf_counter()
    terminal.quiet(1.0)
    terminal.close()
    return max(0.0, terminal.chunks[-1][0] - last)


def while_loading(command: list[str]) -> list[float]:
    """Milliseconds from typing a letter to its echo, 50 letters per second for as long as the file loads."""
    terminal, gaps = Terminal(command), []
    terminal.wait(lambda data: b"Rows appear" in data or "µs".encode() in data)
    terminal.answer(b"f", b"share>5%")
    while terminal.children():
        letter = "жю"[len(gaps) % 2].encode()  # letters that are nowhere else on the screen
        gaps.append(terminal.answer(letter, letter)[0])
        time.sleep(0.02)
        if len(gaps) % 20 == 0:
            terminal.answer(b"\x15", b"share>5%")
    terminal.close()
    return gaps


def stopping_a_load(command: list[str]) -> float:
    """Milliseconds from ^C to the message that the load is stopped."""
    terminal = Terminal(command)
    terminal.wait(lambda data: b"^C cancels" in data)
    taken = terminal.answer(b"\x03", b"topped")[0]
    terminal.close()
    return taken


def stopping_a_question(terminal: Terminal) -> list[float]:
    """Milliseconds from ^C to the message that a sort of all rows is stopped; without sorts that finished first."""
    taken = []
    for _ in range(12):
        os.write(terminal._fd, b">")
        time.sleep(0.02)
        ms, said = terminal.answer(b"\x03", b"topped", b"Nothing to cancel")
        taken += [ms] if said == b"topped" else []
        terminal.quiet(0.5)
    return taken


def timeline(command: list[str], page_bytes: float) -> None:
    """Pan and zoom at every zoom level from the whole run to a few kernels: time from key to paint, and bytes.

    The paint is the first output, the whole picture in one piece. The last output is one more line, the launcher of the
    slice under the cursor, which is looked up once the cursor rests.
    """
    def lanes(data: bytes) -> bool:
        return b"stream" in data and "╵".encode() in data

    command = [*command, "--view", "timeline"]
    terminal = Terminal(command)
    begun = terminal.wait(lanes) * 1e3
    terminal.rests()
    moves: dict[str, list[list[tuple[float, float, int]]]] = {"pan": [], "zoom": []}
    for _ in range(7):
        moves["pan"].append([terminal.key(key) for key in (b"\x1b[C", b"\x1b[D") * 6])
        moves["zoom"].append([terminal.key(b"+") for _ in range(4)])
    row("timeline: process start to its lanes, ms", f"{begun:,.0f}", "")
    for what, by_zoom in moves.items():
        paint, last, size = (statistics.median(one[at] for zoom in by_zoom for one in zoom) for at in range(3))
        row(f"{what}: key to paint, bytes", f"{paint:.1f} ms {size:,.0f} B", "<= 16 ms",
            f"a page of the list {page_bytes:,.0f} B" if page_bytes else "")
        medians = [statistics.median(one[0] for one in zoom) for zoom in by_zoom]
        row(f"{what} from zoom 1, 16, 256 …: key to paint, ms", " ".join(f"{ms:.0f}" for ms in medians), "<= 16")
        row(f"{what}: key to the last line, ms", f"{last:.1f}", "")
    row("timeline: memory then, MB", f"{terminal.memory()}", "")
    terminal.close()
    row("60 pans at 50 kB/s: still changing for, s", f"{slow_link(command, lanes, RIGHT):.2f}", "<= 0.3")


def details(command: list[str]) -> None:
    """Cost per key of the details beside a list: cursor movement at 160x40 with and without them."""
    for shown in ("with", "without"):
        terminal = Terminal([*command, "--view", "kernels"], columns=160)
        terminal.wait(usable)
        terminal.rests()
        if shown == "without":
            terminal.key(b"D", 0.6)
        got = [terminal.key(b"j", 0.03) for _ in range(20)]
        first, size = (statistics.median(one[at] for one in got) for at in (0, 2))
        rested = [terminal.key(b"k", 0.5) for _ in range(10)]
        last, all_of_it = (statistics.median(one[at] for one in rested) for at in (1, 2))
        row(f"cursor {shown} details: first byte, bytes", f"{first:.1f} ms {size:,.0f} B", "<= 8 ms")
        row("  and once it rests: last byte, bytes", f"{last:.1f} ms {all_of_it:,.0f} B", "")
        terminal.close()


def row(what: str, ours: str, goal: str, stock: str = "") -> None:
    print(f"{what:<44} {ours:>22}   goal {goal:<18} {'stock ' + stock if stock else ''}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--stock", type=int, default=100_000, help="rows of the stock DataTable")
    parser.add_argument("--command", default=f"{sys.executable} -m warplens")
    parser.add_argument("--theme", default="")
    parser.add_argument("--trace", help="a big trace to load; without it one of 2 GB is made up")
    parser.add_argument("--only", choices=["timeline", "details", "loading"], default="", help="measure only this")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="warplens-terminal-"))
    try:
        file = plant(folder, arguments.rows)
        theme = ["--theme", arguments.theme] if arguments.theme else []
        ours = [*arguments.command.split(), str(file), *theme]
        page = 0.0 if arguments.only else measure(arguments, [*ours, "--view", "launches"])
        if arguments.only in ("", "timeline"):
            timeline(ours, page)
        if arguments.only in ("", "details"):
            details(ours)
        if arguments.only not in ("", "loading"):
            return
        trace = arguments.trace or str(traces.write(folder / "big.json", 2000))
        loading([*arguments.command.split(), trace, "--view", "launches", "--no-cache", *theme])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def usable(data: bytes) -> bool:
    return b"%" in data and "µs".encode() in data


def loading(command: list[str]) -> None:
    gaps, firsts = [], []
    for _ in range(3):
        gaps += while_loading(command)
        terminal = Terminal(command)
        firsts.append(terminal.wait(lambda data: "µs".encode() in data) * 1e3)
        terminal.close()
    stops = [stopping_a_load(command) for _ in range(3)]
    gaps.sort()
    row("first rows while a big file loads, ms", f"{statistics.median(firsts):.0f}", "<= 500")
    worst = gaps[-1 - len(gaps) // 100]
    row("letter to echo meanwhile, ms: median, p99", f"{statistics.median(gaps):.1f}, {worst:.1f}", "p99 <= 33")
    row("times that was measured", f"{len(gaps)}", "")
    row("^C stops a load, ms", f"{statistics.median(stops):.0f}", "<= 100")


def measure(arguments: argparse.Namespace, ours: list[str]) -> float:
    """Measure the list and print the figures; returns the bytes of a page."""
    print(f"{arguments.rows:,} launches from the cache, 120x40; stock: DataTable of {arguments.stock:,} rows; "
          "least: a list that only makes its lines")
    starts = []
    for _ in range(4):
        terminal = Terminal(ours)
        first = terminal.wait(lambda data: b"warplens" in data)
        starts.append((first * 1e3, terminal.wait(usable) * 1e3))
        if len(starts) < 4:
            terminal.close()
    terminal.quiet(3.0)
    stock = Terminal([sys.executable, "-c", STOCK, str(arguments.stock)])
    stock_usable = stock.wait(lambda data: b"kernel_" in data)
    stock.quiet(1.0)
    least = Terminal([sys.executable, "-c", BARE, str(arguments.rows)])
    least.wait(lambda data: b"kernel_" in data)
    least.quiet(1.0)
    empty = []
    for _ in range(4):
        bare = Terminal([sys.executable, "-c", EMPTY])
        empty.append(bare.wait(lambda data: b"warplens" in data) * 1e3)
        bare.close()
    first, peer = statistics.median(s[0] for s in starts), statistics.median(empty)
    row("process start to first frame, ms", f"{first:.0f}", "<= 250", f"empty app {peer:.0f}")
    row("open to usable, ms", f"{statistics.median(s[1] for s in starts):.0f}", "<= 600", f"{stock_usable * 1e3:,.0f}")
    row("memory then, MB", f"{terminal.memory()}", "<= 260", f"{stock.memory()}")
    for what, key, goal in (("cursor", b"j", "3 ms, 450 B"), ("page", PAGE_DOWN, "8 ms, 8,000 B")):
        (ms, size), (stock_ms, stock_size) = terminal.keys(key, 25), stock.keys(b"\x1b[B" if key == b"j" else key, 15)
        peer = f"{stock_ms:.1f} ms {stock_size:,.0f} B; least {least.keys(key, 25)[0]:.1f} ms"
        row(f"{what}: key to first byte, bytes", f"{ms:.1f} ms {size:,.0f} B", f"<= {goal}", peer)
    least.close()
    page_bytes = size
    for one, key in ((terminal, b"j"), (stock, b"\x1b[B")):
        one.key(key * 45)
    size, stock_size = terminal.keys(b"j", 15)[1], stock.keys(b"\x1b[B", 15)[1]
    row("one-line scroll, bytes", f"{size:,.0f} B", "<= 600 B", f"{stock_size:,.0f} B")
    terminal.quiet(1.0)
    before, cpu = len(terminal.chunks), terminal.cpu()
    time.sleep(10)
    sent = sum(len(chunk) for _, chunk in terminal.chunks[before:])
    row("idle for 10 s: bytes, CPU", f"{sent} B {(terminal.cpu() - cpu) * 10:.1f}%", "0 B, 0%")
    filters, sorts = [], []
    for text in (b"nccl", b"gemm", b"triton") * 3:
        for keys in (b"f", b"\x15", text):
            terminal.key(keys)
        filters.append(terminal.key(b"\r", 0.4)[1])
        terminal.key(b"\x1b[27u", 0.4)  # Escape lifts the filter
    row("filter to paint, ms (last byte)", f"{statistics.median(filters):.0f}", "<= 50")
    for _ in range(3):
        sorts.append(terminal.key(b">", 0.8)[1])
    row("sort to paint, ms: first, then median", f"{sorts[0]:.0f}, {statistics.median(sorts[1:]):.0f}", "<= 500")
    stops = stopping_a_question(terminal)
    row("^C stops a sort, ms: median, worst", f"{statistics.median(stops):.0f}, {max(stops):.0f}", "<= 100")
    row("memory after that, MB", f"{terminal.memory()}", "")
    terminal.close()
    stock.close()
    lag = slow_link(ours, usable)
    stock_lag = slow_link([sys.executable, "-c", STOCK, "20000"], lambda data: b"kernel_" in data)
    row("60 PgDn at 50 kB/s: still changing for, s", f"{lag:.2f}", "<= 0.3", f"{stock_lag:.2f}")
    return page_bytes


if __name__ == "__main__":
    main()
