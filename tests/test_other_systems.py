"""The command works where Python has none of what only Linux, or only POSIX, offers: macOS and Windows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ["kineto.pt.trace.json", "nsys.sqlite", "kernel_table_unet_training.txt"]
NO_MODULES = "fcntl", "termios", "tty", "pty", "pwd", "grp", "resource"
NO_NAMES = {
    "macOS": "memfd_create sched_getaffinity O_TMPFILE posix_fadvise sched_yield",
    "Windows": (
        "fork forkpty memfd_create sched_getaffinity O_NOFOLLOW O_NONBLOCK O_DIRECTORY O_CLOEXEC getuid geteuid "
        "getgid fchmod fchown chown mkfifo nice setsid killpg"
    ),
}
PROGRAM = """
import os, signal, sys
import platformdirs, tempfile  # the interpreter's own modules may use what they find
import subprocess, polars
for name in {names!r}.split():
    if hasattr(os, name):
        delattr(os, name)
if {windows}:
    for name in ("SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGKILL", "alarm"):
        if hasattr(signal, name):
            delattr(signal, name)
    for name in {modules!r}:
        sys.modules[name] = None
sys.platform = {platform!r}
import pkgutil, importlib, warplens
for room in ("loaders", "analysis", "cli"):
    for found in pkgutil.walk_packages([warplens.__path__[0] + "/" + room], f"warplens.{{room}}."):
        if not any(part in found.name for part in ("native.emit", "native.jit", "scan.", "compiled_walk")):
            importlib.import_module(found.name)
from warplens.cli.main import main
for path in sys.argv[1:] * 2:  # the second time from the cache
    if status := main(["report", path, "--view", "kernels", "--format", "json"]):
        sys.exit(status)
"""


@pytest.mark.parametrize("system, platform", [("macOS", "darwin"), ("Windows", "win32")])
def test_reports_work_there(system: str, platform: str, tmp_path: Path) -> None:
    program = PROGRAM.format(
        names=NO_NAMES[system], windows=system == "Windows", modules=NO_MODULES, platform=platform
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".dev"), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", program, *(str(ROOT / "samples" / name) for name in SAMPLES)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    made = [json.loads(line) for line in done.stdout.splitlines()]
    assert [Path(one["sources"][0]["path"]).name for one in made] == SAMPLES * 2
    assert all(one["rows"] for one in made) and made[:3] == made[3:]
    assert not [left for left in tmp_path.iterdir() if left.name.startswith("warplens-")]
