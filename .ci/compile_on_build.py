"""Build hook: compiles the scanners while the package is built, so that nobody's first big trace waits for it.

``pip install .`` and ``pip install -e .`` build on the machine that will run the code, and a wheel goes to others, so
an editable install compiles for the best level of processors that this machine has, a wheel for all of them, or for
those that WARPLENS_BUILD_LEVELS names ("x86-64-v3 x86-64-v2"; an empty value compiles nothing). A wheel with code is
tagged for its platform: the code calls nothing outside itself, so any Linux of that architecture runs it. Where
compiling fails, or the machine has no such level, the package is built without code and tagged for any machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_MODULES = ("__init__.py", "__main__.py", "library.py", "py.typed")
"""What is beside the folders of the package."""
_BUILT = "loaders/native/built"
_LONGEST_SECONDS = 600
_TAG = "py3-none-manylinux_2_17_x86_64"


class CompileOnBuild(BuildHookInterface):
    """Adds machine code to a wheel, or to the tree that an editable install runs from."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have the files in the wheel."""
        root = Path(self.root)
        package = root / ".dev" / "warplens"
        if not package.is_symlink():  # an unpacked sdist cannot carry a link to its own root
            package.parent.mkdir(exist_ok=True)
            package.symlink_to("..")
        if version == "editable":
            self._compile(root / _BUILT, most=1)
            return
        for name in _MODULES:  # not by the rules of pyproject.toml, which would apply to an editable install as well
            build_data["force_include"][str(root / name)] = f"warplens/{name}"
        self._folder = tempfile.TemporaryDirectory()
        for file in self._compile(Path(self._folder.name), most=2):
            build_data["force_include"][str(file)] = f"{_BUILT}/{file.name}"  # sources puts it into the package
            build_data.update(tag=_TAG, pure_python=False)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled for the wheel."""
        if version != "editable":
            self._folder.cleanup()

    def _compile(self, folder: Path, most: int) -> list[Path]:
        here = {**os.environ, "PYTHONPATH": os.pathsep.join((str(Path(self.root) / ".dev"), *filter(None, sys.path)))}
        for level in self._levels(here, most):
            command = [sys.executable, "-P", "-m", "warplens.loaders.native.build", str(folder), level]
            try:
                subprocess.run(command, env=here, check=True, timeout=_LONGEST_SECONDS, capture_output=True)
            except (OSError, subprocess.SubprocessError) as error:
                output = getattr(error, "stderr", None) or b""
                self.app.display_warning(f"no code for {level}: {error} {output.decode(errors='replace')[-400:]}")
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def _levels(self, here: dict[str, str], most: int) -> list[str]:
        levels = os.environ.get("WARPLENS_BUILD_LEVELS")
        if levels is not None:
            return levels.split()
        program = f"from warplens.loaders.native.processor import levels_here; print(*levels_here()[:{most}])"
        done = subprocess.run([sys.executable, "-P", "-c", program], env=here, capture_output=True, text=True)
        return done.stdout.split()
