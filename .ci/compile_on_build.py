"""Build hook: compiles the scanners while the package is built, so that nobody's first big trace waits for it.

``pip install .`` and ``pip install -e .`` build on the machine that will run the code, so one level of processors, the
best that this one has, is enough. Wheels for others are built with WARPLENS_BUILD_LEVELS="x86-64-v3 x86-64-v2"; an
empty value compiles nothing. Where compiling fails, or the machine has no such level, the package is built without code
and compiles on first use.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_BUILT = "loaders/native/built"
_LONGEST_SECONDS = 600


class CompileOnBuild(BuildHookInterface):
    """Adds machine code to a wheel, or to the tree that an editable install runs from."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have the files in the wheel."""
        root = Path(self.root)
        if version == "editable":
            self._compile(root / _BUILT)
            return
        self._folder = tempfile.TemporaryDirectory()
        for file in self._compile(Path(self._folder.name)):
            build_data["force_include"][str(file)] = f"{_BUILT}/{file.name}"  # sources puts it into the package

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled for the wheel."""
        if version != "editable":
            self._folder.cleanup()

    def _compile(self, folder: Path) -> list[Path]:
        package = str(Path(self.root) / ".dev")
        here = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (package, *sys.path)))}
        for level in self._levels(here):
            command = [sys.executable, "-P", "-m", "warplens.loaders.native.ship", str(folder), level]
            environment = {**here, "NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": ""}
            try:
                subprocess.run(command, env=environment, check=True, timeout=_LONGEST_SECONDS, capture_output=True)
            except (OSError, subprocess.SubprocessError) as error:
                said = getattr(error, "stderr", None) or b""
                self.app.display_warning(f"no code for {level}: {error} {said.decode(errors='replace')[-400:]}")
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def _levels(self, here: dict[str, str]) -> list[str]:
        asked = os.environ.get("WARPLENS_BUILD_LEVELS")
        if asked is not None:
            return asked.split()
        program = "from warplens.loaders.native.levels import levels_here; print(*levels_here()[:1])"
        found = subprocess.run([sys.executable, "-P", "-c", program], env=here, capture_output=True, text=True)
        return found.stdout.split()
