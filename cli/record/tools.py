"""Recording with a program of others: Nsight Systems and rocprofv3 around a command, xprof's client for JAX."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from threading import Event
from urllib.parse import urlsplit

from ...analysis.core.text import display
from ...library import UsageError
from ...loaders import files
from ..arguments import Failure
from .road import Ask, Result, Stopped, new_stem

_COLLECT = """
import sys
from xprof.convert import _pywrap_profiler_plugin as profiler
address, folder, ms = sys.argv[1:]
levels = {"host_tracer_level": 2, "device_tracer_level": 1, "python_tracer_level": 1}
profiler.trace(address, folder, "", True, int(ms), 1, levels)
"""
_TICK = 0.1
_SHOWN = 200


class Wrapped:
    """A command inside nsys or rocprofv3, which write when it has ended."""

    over = "the command has ended"

    def __init__(self, tool: str, words: Sequence[str], ms: int | None) -> None:
        """``tool``: nsys or rocprof; ``ms`` None: all of the command. Raises Failure where it is not installed."""
        self.stopping, self.dropped = Event(), 0
        self.exit_status: int | None = None
        self._tool, self._words, self._ms = tool, list(words), ms
        program = "rocprofv3" if tool == "rocprof" else tool
        self._program = files.program(program)
        if self._program is None:
            raise Failure(f"{tool} is not installed" + (f" (no {program} on the path)" if program != tool else ""))

    def record(self, ask: Ask) -> Result:
        """Run the command to its end."""
        begun, stem = time.monotonic(), new_stem(ask.out)
        line = [str(self._program), *self._options(ask, stem), *self._words]
        try:
            process = subprocess.Popen(line)
        except OSError as error:
            raise Failure(f"{line[0]}: {(error.strerror or str(error)).lower()}") from None
        while process.poll() is None:
            if self.stopping.wait(_TICK):
                raise Stopped
        self.exit_status = process.returncode
        files = [one for one in sorted(ask.out.glob(f"{stem}*")) if one.is_file() and not one.name.endswith(".sqlite")]
        files += sorted((ask.out / stem).rglob("*_results.*"))
        reason = "" if files else f"{self._tool} wrote nothing to {display(str(ask.out))} (it ended with status " \
            f"{process.returncode})"
        return Result(files, 1, reason, time.monotonic() - begun)

    def _options(self, ask: Ask, stem: str) -> list[str]:
        if self._tool == "nsys":
            result = ["profile", "--trace=cuda,nvtx,osrt,cublas,cudnn", "--cuda-graph-trace=node",
                    f"--output={ask.out / stem}", "--kill=none"]  # nsys would end the command with the recording
            result += [f"--delay={math.ceil(ask.after)}"] if ask.after else []
            return result + ([f"--duration={max(1, math.ceil(self._ms / 1000))}"] if self._ms else [])
        result = ["--sys-trace", "--output-format", "json", "--output-directory", str(ask.out / stem),
                "--output-file", stem]
        if self._ms or ask.after:
            period = f"{round(ask.after * 1000)}:{self._ms or 0}:1"
            result += ["--collection-period", period, "--collection-period-unit", "msec"]
        return [*result, "--"]

    def idle(self, seconds: float) -> None:
        """It has ended."""

    def close(self) -> None:
        """The command goes on, and the tool with it."""


class ProfilerServer:
    """A JAX program that called ``jax.profiler.start_server``."""

    exit_status = None
    over = ""

    def __init__(self, address: str) -> None:
        """``profiler://HOST:PORT``. Raises UsageError, and Failure where nothing here can speak to it."""
        self.stopping, self.dropped = Event(), 0
        try:
            at = urlsplit(address)
            if not at.hostname or not at.port or at.path.strip("/"):
                raise ValueError
        except ValueError:
            raise UsageError(f"{display(address)} is not the address of a profiler server",
                             "It looks like profiler://127.0.0.1:9999.") from None
        host = f"[{at.hostname}]" if ":" in at.hostname else at.hostname
        self._address, self._python = f"{host}:{at.port}", _python_with_xprof()

    def record(self, ask: Ask) -> Result:
        """Collect once."""
        begun, stem = time.monotonic(), new_stem(ask.out)
        if self.stopping.wait(ask.after):
            raise Stopped
        folder = ask.out / stem
        collector = subprocess.Popen(
            [self._python, "-c", _COLLECT, self._address, str(folder), str(ask.ms)], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"})
        deadline, said = begun + ask.after + ask.ms / 1000 + ask.timeout, b""
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    said = collector.communicate(timeout=_TICK)[1]
                    break
                if self.stopping.is_set():
                    raise Stopped
                if time.monotonic() > deadline:
                    return Result([], 1, f"{self._address} did not answer within {ask.timeout:g} s",
                                     time.monotonic() - begun)
        finally:
            if collector.poll() is None:
                collector.kill()
                collector.communicate()
        files = sorted(folder.rglob("*.xplane.pb"))
        if not files:
            last = next((line for line in reversed(said.decode(errors="replace").splitlines()) if line.strip()), "")
            reason = f"{self._address} gave no profile" + (f": {display(last.strip()[:_SHOWN])}" if last else "")
            return Result([], 1, reason, time.monotonic() - begun)
        return Result(files, 1, "", time.monotonic() - begun)

    def idle(self, seconds: float) -> None:
        """Wait."""
        self.stopping.wait(seconds)

    def close(self) -> None:
        """Nothing is left to take away."""


def _python_with_xprof() -> str:
    """A Python that can import xprof: ours, else that of the path. Raises Failure, status 3."""
    if importlib.util.find_spec("xprof") is not None:
        return sys.executable
    for name in ("python", "python3"):
        other = files.program(name)
        if other is None or other == sys.executable:  # not resolved: environments link to the same program
            continue
        asked = [other, "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('xprof') is None)"]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            if subprocess.run(asked, capture_output=True, timeout=20, check=False).returncode == 0:
                return other
    raise Failure("a JAX profiler server needs pip install xprof", "Its client is not part of jax.")
