"""Finds traces under a folder: for the picker, for ``--watch``, and for suggestions in error messages.

Files are recognised by their first bytes, as everywhere, never by their names; names only exclude files that cannot be
traces (programs, pictures), so that a source tree is not read file by file. The walk is breadth-first, and its bounds
are beyond any folder of recordings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from .. import registry
from . import stream

DEEPEST = 6
_MOST_NAMED = 4
MOST_FILES = 20_000
_NOT_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages", "proc", "sys"})
_NOT_TRACES = frozenset(
    ".py .pyc .pyi .so .o .a .c .h .cc .cpp .cu .cuh .rs .go .js .ts .css .html .toml .yaml .yml .ini .cfg .lock .sh "
    ".png .jpg .jpeg .gif .svg .pdf .mp4 .whl .zip .tar .tgz .pt .pth .safetensors .onnx .npy .npz .bin "
    ".parquet .arrow .ipynb .rst .tmp .swp".split()
)


class TraceFound(Struct, frozen=True):
    """A trace: its file or folder, its size on disk, its format."""

    path: Path
    bytes: int | None
    format: str


def discover(root: Path) -> Iterator[TraceFound]:
    """Recognised traces under ``root``, nearest first. Unreadable files are skipped."""
    folder_files = registry.directory_files()
    level, count = [root], 0
    for _ in range(DEEPEST):
        below: list[Path] = []
        for folder in level:
            files, folders = _listed(folder)
            below += folders
            matches = [file for file in files if file.name in folder_files]
            if matches:
                yield TraceFound(folder, sum(file.stat().st_size for file in files), folder_files[matches[0].name])
                continue
            together: set[Path] = set()
            for file in files:
                if file in together:  # a companion of a file already yielded
                    continue
                count += 1
                if count > MOST_FILES:
                    return
                if (recognised := recognise(file)) is not None:
                    loader = registry.named(recognised.format)  # importing all loaders takes 0.15 s
                    if loader is not None and loader.one_recording:
                        together |= set(loader.companions(file))
                    yield recognised
        level = below


def inputs_in(folder: Path) -> list[Path]:
    """Inputs directly in a folder, sorted by name: recognised files, and folders that contain some."""
    files, folders = _listed(folder)
    below = [path for path in folders if next(discover(path), None) is not None]
    return sorted([*(file for file in files if recognise(file) is not None), *below])


def recognise(file: Path) -> TraceFound | None:
    """The file as a trace; None unless exactly one format recognises it."""
    if file.suffix.lower() in _NOT_TRACES:
        return None
    try:
        size = file.stat().st_size
        claimed = registry.claims_of(file, stream.head(file)) if size else ()
    except Exception:  # listing a folder must not fail because of any file in it
        return None
    return TraceFound(file, size, claimed[0].name) if len(claimed) == 1 else None


def _listed(folder: Path) -> tuple[list[Path], list[Path]]:
    """(regular files, folders) in a folder, sorted by name, without hidden ones and links to a parent folder."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return [], []
    visible = [entry for entry in entries if not entry.name.startswith(".")]
    files = [Path(entry.path) for entry in visible if entry.is_file()]
    folders = [Path(entry.path) for entry in visible if entry.is_dir() and entry.name not in _NOT_FOLDERS]
    return files, [one for one in folders if not leads_back(one)]


def leads_back(folder: Path) -> bool:
    """Whether it is a symlink to one of its parent folders."""
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())


def runs_under(folder: Path, paths: Sequence[Path] = ()) -> str:
    """A sentence naming the first of ``paths`` or, if empty, of the traces under the folder; '' if there are none."""
    runs = list(paths) or [one.path for one in islice(discover(folder), _MOST_NAMED + 1)]
    if not runs:
        return ""
    names = list(dict.fromkeys(os.path.relpath(path, folder) for path in runs))
    tail = ", …" if len(names) > _MOST_NAMED else ""
    return f"Name one: {', '.join(os.path.join(folder, name) for name in names[:_MOST_NAMED])}{tail}."


def below(folder: Path, folders: Sequence[Path]) -> list[str]:
    """A sentence naming subfolders of an opened folder with recordings, which were not opened; [] if there are none.
    Recordings are not counted: one per folder, of a few folders, is recognised, as this is done at every opening."""
    holding = list(islice((one.name for one in folders if next(discover(one), None) is not None), _MOST_NAMED + 1))
    if not holding:
        return []
    names = ", ".join(holding[:_MOST_NAMED]) + (", …" if len(holding) > _MOST_NAMED else "")
    return [f"{folder}: recordings in its folders ({names}) were not opened; name a folder, or a file in it, to open "
            "that"]


def part_of(path: Path) -> tuple[str, str] | None:
    """(reason, advice) for a file that is only a part of the recording in its folder; None for other files."""
    for loader in registry.loaders():
        for folder in (path.parent, path.parent / (loader.directory_within or "")):
            if loader.directory_file and path.name != loader.directory_file and (
                folder / loader.directory_file).is_file() and (folder == path.parent or loader.directory_within):
                return (f"is a part of the {loader.name} recording in its folder, not a trace by itself",
                        f"Open the folder: {path.parent}")
    return None
