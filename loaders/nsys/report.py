"""Nsight Systems reports (``.nsys-rep``, ``.qdrep``), which only ``nsys`` can read.

The SQLite export in the same folder is read instead. If there is none, ``nsys`` makes one where it is installed, once,
because the tables are cached; otherwise the error message gives the command to run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from msgspec.structs import replace

from .. import files
from ..errors import Unreadable
from ..loader import FormatLoader, Job
from ..trace import Trace

ENDINGS = (".nsys-rep", ".qdrep")
ELSEWHERE = ("Run `nsys export --type sqlite FILE` where Nsight Systems is installed, and open the .sqlite file or put "
             "it next to this one.")
_LOOK = 0.2  # Seconds between two checks of the export's progress.
_KILL_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux.


def sibling_export(report: Path) -> Path | None:
    """The SQLite export of a report in the same folder; None if there is none."""
    names = (report.with_suffix(".sqlite"), report.with_name(f"{report.name}.sqlite"))
    return next((name for name in names if name.is_file()), None)


class NsightReport(FormatLoader):
    """The loader of Nsight Systems' reports."""

    name = "nsys-rep"
    title = "Nsight Systems report, through the .sqlite export next to it, or through nsys if that is installed"
    suffixes = ENDINGS
    version = 3
    fills = ("kernels", "host", "metrics")
    named = ENDINGS
    one_recording = True

    def sniff(self, head: bytes) -> bool:
        """Never: the format is not published, so reports are recognised by file name."""
        return False

    def companions(self, path: Path) -> tuple[Path, ...]:
        """The export in the same folder, if any."""
        export = sibling_export(path) if path.name.lower().endswith(ENDINGS) else None
        return (export,) if export is not None else ()

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace, from the export. Raises Unreadable if there is none and none can be made."""
        from .read import load

        beside = sibling_export(job.path)
        export = beside if beside is not None else _exported(job)
        try:
            trace = load(replace(job, path=export))
        except Unreadable as error:
            raise Unreadable(job.path, f"has an export that {error.reason}", ELSEWHERE) from None
        finally:
            if beside is None:
                export.unlink(missing_ok=True)
        info = replace(trace.info, source=str(job.path), label=_label(job.path), bytes=job.path.stat().st_size)
        trace = replace(trace, info=info)
        if beside is None:
            return (trace.warn("read from an export that nsys made of the report just now"),)
        warnings = [f"read from the export next to the report, {beside.name}"]
        if beside.stat().st_mtime < job.path.stat().st_mtime - 1:
            warnings.append("the export is older than the report: if the report was re-recorded, export it again")
        return (trace.warn(*warnings),)


def _label(path: Path) -> str:
    return next(path.name[: -len(end)] for end in ENDINGS if path.name.lower().endswith(end))


def _exported(job: Job) -> Path:
    """An export made by ``nsys`` in the job's workspace. Raises Unreadable; kills ``nsys`` if ``progress`` raises."""
    program = files.program("nsys")
    if program is None:
        raise Unreadable(job.path, "is an Nsight Systems report and needs nsys, which is not installed here", ELSEWHERE)
    target, log_path = job.workspace / "export.sqlite", job.workspace / "export.log"
    size = job.path.stat().st_size
    command = [program, "export", "--type", "sqlite", "--force-overwrite", "true", "--output", str(target),
               os.path.abspath(job.path)]
    with open(log_path, "wb") as log:
        running = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_end_with_parent)
        try:
            while running.poll() is None:
                time.sleep(_LOOK)
                written = target.stat().st_size if target.exists() else 0
                job.progress(min(written, size) // 2, size, 0)  # an export is about as large as its report, or larger
        except BaseException:
            running.kill()
            running.wait()
            raise
    lines = log_path.read_bytes().decode("utf-8", "replace").strip().splitlines()
    log_path.unlink()
    if running.returncode or not target.is_file():
        why = lines[-1].strip()[:160] if lines else f"exit status {running.returncode}"
        raise Unreadable(job.path, f"could not be exported by nsys ({why})", ELSEWHERE)
    return target


def _end_with_parent() -> None:
    """Have the kernel kill ``nsys`` with its parent: cancelling a load kills the loading process."""
    if sys.platform == "linux":
        import ctypes
        import signal

        ctypes.CDLL(None).prctl(_KILL_WITH_PARENT, signal.SIGKILL)


LOADER = NsightReport()
