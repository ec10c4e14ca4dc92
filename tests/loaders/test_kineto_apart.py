"""Reading in a child process: the same tables, the same errors, and nothing left behind."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux reads apart")
SAMPLES = Path(__file__).parents[2] / "samples"
PROGRAM = """
import os, sys, time
from warplens.loaders.kineto import forked_reader as apart
apart.LEAST_BYTES = 0
os.sched_getaffinity = lambda process: {0, 1}
read = apart.read_apart
def told(job):
    found = read(job)
    print("not apart" if found is None else "apart", file=sys.stderr)
    return found
apart.read_apart = told
CHANGE
from warplens.cli.main import main
status = main(sys.argv[1:])
try:
    os.waitpid(-1, os.WNOHANG)
    print("a child is left", file=sys.stderr)
except ChildProcessError:
    pass
sys.exit(status)
"""
SCANS = """
from warplens.loaders.kineto import load
def scan(job):
    job.progress(1, 2, 3)
    BODY
load.scan = scan
"""

STOPS = """
from warplens.loaders.ingest.progress import Progress
def stop(*counts): raise KeyboardInterrupt
Progress.update = stop
"""


def run(path: Path, *more: str, change: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.replace("CHANGE", change)
    command = [sys.executable, "-c", program, "report", "--view", "kernels", "--format", "json", *more, str(path)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=120)


def scanning(body: str) -> str:
    return SCANS.replace("BODY", body)


@pytest.fixture
def trace() -> Path:
    return SAMPLES / "kineto.pt.trace.json"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_the_answer_is_the_same(trace: Path, tmp_path: Path, packed: bool, cached: bool) -> None:
    path = tmp_path / "run.json.gz" if packed else tmp_path / "run.json"
    path.write_bytes(gzip.compress(trace.read_bytes()) if packed else trace.read_bytes())
    more = [] if cached else ["--no-cache"]
    place = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    here = run(path, "--no-cache", change="import threading; threading.active_count = lambda: 2")
    apart = run(path, *more, **place)
    assert (here.stderr, apart.stderr) == ("not apart\n", "apart\n")
    assert apart.stdout == here.stdout and '"count"' in here.stdout
    again = run(path, *more, **place)
    assert again.stdout == here.stdout and again.stderr == ("" if cached else "apart\n")


def test_what_makes_it_of_no_use(trace: Path) -> None:
    assert run(trace, "--no-cache", change="import polars").stderr == "not apart\n"
    assert run(trace, "--no-cache", WARPLENS_DEBUG="1").stderr == "not apart\n"
    assert run(trace, "--no-cache", change="apart.LEAST_BYTES = 1 << 30").stderr == "not apart\n"
    broken = "def full(*arguments): raise OSError(11, 'no more')\n"
    for call in ("fork", "memfd_create"):
        done = run(trace, "--no-cache", change=f"{broken}os.{call} = full")
        assert done.stderr == "not apart\n" and done.returncode == 0


def test_what_is_wrong_with_a_file_is_said_as_ever(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"schemaVersion": 1, "traceEvents": 5}')
    done = run(tmp_path / "x.json", "--no-cache")
    assert done.returncode == 3 and "it holds no list of trace events. Give a trace" in done.stderr


@pytest.mark.parametrize("body, said", [
    ("os.kill(os.getpid(), 11)", "ended unexpectedly (signal 11, Segmentation fault)"),
    ("os.kill(os.getpid(), 9)", "was killed; the machine may be out of memory"),
    ("os._exit(7)", "ended unexpectedly (status 7)"),
    ("raise MemoryError", "needs more memory than there is"),
    ("raise OSError(28, 'No space left on device')", "no space is left for its tables"),
    ("raise type('Odd', (Exception,), {})('here')", "by the kineto loader (RuntimeError: Odd('here'"),
    ("return lambda: 5", "could not be read by the kineto loader ("),
])  # fmt: skip
def test_a_reader_that_fails_is_a_sentence(trace: Path, body: str, said: str) -> None:
    done = run(trace, "--no-cache", change=scanning(body))
    assert done.returncode == 3 and said in done.stderr
    assert "Traceback" not in done.stderr and "child" not in done.stderr and len(done.stderr) < 500


def test_stopping_it_stops_the_child(trace: Path) -> None:
    done = run(trace, "--no-cache", change=STOPS + scanning("time.sleep(600)"))
    assert done.returncode == 130 and done.stderr.endswith("warplens: stopped\n") and "child" not in done.stderr
