"""Finds the files to read for an input: a file and its loader, or the recordings in a folder.

Files are recognised by their first bytes; nothing else is read. A file that looks like a rank's recording but is not
readable is named in a warning, so that the others still open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from ... import registry
from ...errors import Unreadable
from ...in_place import in_place
from ...loader import FormatLoader
from ...trace import Trace
from .. import cache, discovery, stream

Progress = Callable[[int, int, int], None]
_GIVE = "Give a trace, or the folder that holds one."
_AGAIN = "Write or copy it again."
_SESSIONS = "plugins", "profile"  # The path in which TensorBoard's profiler creates one folder per session.
CAPTURES = "capture_traces"  # The folder next to a trace that holds its graph captures.
_DEEPEST = 3  # Depth of nested folders searched for a job's ranks.
SCANNED = 4096  # Files of a folder that are examined; a job has no more ranks.


class InputFile(Struct, frozen=True):
    """One file of the input: path, format, size, its loader or, if cached, the directory of its tables."""

    path: Path
    format: str
    size: int
    loader: FormatLoader | None = None
    entry: Path | None = None


class Request(Struct, frozen=True):
    """Options of one open; ``compiled``, ``lasting`` and ``first_rows`` as in ``loader.Job``.

    ``align_s``: start of the counters recorded alongside a trace, in seconds from its start; None: use the clocks.
    ``some_read`` is called with (files, directories, total) as more recordings of a job have been read. ``as_one``: all
    recordings of a folder are wanted as one run, none individually. ``settle``: this open itself accounts for what it
    adds to the cache, rather than the open that started it.
    """

    use_cache: bool = True
    compiled: bool = True
    lasting: bool = True
    progress: Progress = lambda done, total, events: None
    first_rows: Callable[[Trace], None] | None = None
    align_s: float | None = None
    some_read: Callable[[Sequence[Path], Sequence[Path], int], None] | None = None
    as_one: bool = False
    settle: bool = True


def listed(path: str) -> tuple[list[Path], list[str]]:
    """The recordings in a file or folder, which are not read, and sentences about files left out. Raises Unreadable."""
    folder = Path(path).expanduser()
    if not folder.exists():
        raise Unreadable(path, "no such file or directory", "Check the name.")
    if not folder.is_dir():
        return [folder], []
    files, unread = in_folder(path, folder, Request(use_cache=False))
    return [file.path for file in files if file.format not in registry.samplers()], unread


def file_of(display_name: str, path: Path, request: Request) -> InputFile:
    """The file with its cache entry or the one loader that recognises it. Raises Unreadable if there is none."""
    cached = cache.find(path) if request.use_cache else None
    if cached is not None and cached.origin.alone:
        return InputFile(path, cached.origin.loader, cached.origin.stamps[0][1], entry=cached.directory)
    head = _head(display_name, path)
    previous = registry.named(cached.origin.loader) if cached is not None else None
    if previous is not None and previous.sniff(head):
        claimed: tuple[FormatLoader, ...] = (previous,)
    else:
        claimed = registry.claims_of(path, head)
    if len(claimed) == 1:
        return InputFile(path, claimed[0].name, path.stat().st_size, claimed[0])
    if claimed:
        names = " and ".join(loader.name for loader in claimed)
        advice = "This is a fault of warplens: report it."
        raise Unreadable(display_name, f"is claimed by several formats ({names})", advice)
    from ... import unsupported  # only for files that no loader recognises

    refusal = unsupported.recognise(path, head) or discovery.part_of(path) or unsupported.nearest(head)
    if refusal is None:
        is_text = b"\0" not in head and sum(byte < 9 or 13 < byte < 32 for byte in head[:4096]) < 8
        kind = "is a text file, but not" if is_text else "is not in"
        refusal = f"{kind} a trace format warplens recognises", unsupported.RECORD
    raise Unreadable(display_name, *refusal)


def _head(display_name: str, path: Path) -> bytes:
    try:
        with stream.Source(path) as source:
            head = stream.head(path)
            if head:
                return head
            if source.size and source.compressed:
                source.read(1)
                raise Unreadable(display_name, source.ended or "is compressed but empty", _AGAIN)
    except PermissionError:
        advice = "Ask for read permission, or copy it to a folder you can read."
        raise Unreadable(display_name, "cannot be read (permission denied)", advice) from None
    except OSError as error:
        raise Unreadable(display_name, f"cannot be read ({(error.strerror or str(error)).lower()})", _AGAIN) from None
    raise Unreadable(display_name, "is empty", _AGAIN)


def in_folder(display_name: str, folder: Path, request: Request, depth: int = 0) -> tuple[list[InputFile], list[str]]:
    """The traces of a folder, those of one job or a single one, and sentences about what was left out.

    If the folder has no traces itself, its subfolders are searched: each may be one rank's. Raises Unreadable if it has
    no traces, or traces of several formats.
    """
    if (ready := in_place(folder)) is not None:
        return [file_of(str(ready), ready, request)], []
    inside_names = registry.directories_within()  # subfolders in which some formats put their recording
    folder = next((folder / name for name in inside_names if (folder / name).is_dir()), folder)
    try:
        names = sorted(entry.path for entry in os.scandir(folder) if not entry.name.startswith("."))
    except OSError as error:
        reason = f"cannot be listed ({(error.strerror or '').lower()})"
        raise Unreadable(display_name, reason, "Give a file in it.") from None
    files = [Path(name) for name in names if os.path.isfile(name)]
    folders = [Path(name) for name in names if os.path.isdir(name) and not discovery.leads_back(Path(name))]
    if not names:
        raise Unreadable(display_name, "is an empty folder", _GIVE)
    if folder.resolve().parts[-2:] == _SESSIONS and len(folders) > 1:
        newest, unread = in_folder(display_name, folders[-1], request, depth + 1)
        note = f"{folders[-1].name} is the newest of {len(folders)} sessions; to see another, open its folder"
        return newest, [*unread, note]
    folder_files = registry.directory_files()
    if matches := [file for file in files if file.name in folder_files]:
        return [file_of(str(matches[0]), matches[0], request)], []
    parts, refused = [], list[Unreadable]()
    for file in files[:SCANNED]:
        try:
            parts.append(file_of(str(file), file, request))
        except Unreadable as error:
            refused.append(error)
    from ..rank_names import shape  # only of folders

    shapes = {shape(part.path) for part in parts}
    unread = [left_out(error) for error in refused if shape(Path(error.path)) in shapes]
    unread += discovery.below(folder, [one for one in folders if one.name != CAPTURES]) if parts else []
    if not parts and depth < _DEEPEST:
        for inner in folders[:SCANNED]:
            try:
                inner_files, lacking = in_folder(str(inner), inner, request, depth + 1)
            except Unreadable as error:
                refused.append(error)
                continue
            parts += inner_files
            unread += lacking
            if len(parts) > SCANNED:
                break
    if not parts:
        one = len(files or folders) == 1
        inside = f"{len(files)} other file" if files else f"{len(folders)} folder"
        inside += "" if one else "s"
        inside += "" if files else " without one either"
        raise Unreadable(display_name, f"holds no trace ({inside})", discovery.runs_under(folder) or _GIVE)
    parts = _recordings(_without_twins(parts))
    paths = {part.path for part in parts}
    twice = {path for path in paths if path.suffix in (".gz", ".zst") and path.with_suffix("") in paths}
    parts = [part for part in parts if part.path not in twice]
    unread += [f"{path} was left out: {path.stem} next to it is the same, decompressed" for path in sorted(twice)]
    counter_formats = registry.samplers()
    formats = sorted({part.format for part in parts} - counter_formats)
    if len(formats) > 1:
        from ..discovery import runs_under

        advice = runs_under(folder, [part.path for part in parts])
        raise Unreadable(display_name, f"holds recordings of several formats ({', '.join(formats)})", advice)
    return sorted(parts, key=lambda part: part.format in counter_formats), unread


def left_out(error: Unreadable) -> str:
    """A sentence saying that a file was left out, and why."""
    return f"{error.path} was left out: it {error.reason}"


def _without_twins(files: list[InputFile]) -> list[InputFile]:
    """The files without those that duplicate another recording of the folder in another format."""
    formats = {file.format for file in files}
    if len(formats) < 2:
        return files
    twins = {loader.name: loader.twins for loader in registry.loaders() if loader.name in formats}
    return [
        file for file in files
        if not any(file.path.name.endswith(ends) for name, ends in twins.items() if ends and name != file.format)
    ]


def _recordings(files: list[InputFile]) -> list[InputFile]:
    """One file per recording: of files that are read together, only the leading one."""
    together: set[Path] = set()
    companions: set[Path] = set()
    for file in sorted(files, key=lambda file: file.loader is not None and not file.loader.leads(file.path)):
        if file.path in together:
            continue
        companions.add(file.path)
        if file.loader is not None and file.loader.one_recording:
            together |= set(file.loader.companions(file.path))
    return [file for file in files if file.path in companions]
