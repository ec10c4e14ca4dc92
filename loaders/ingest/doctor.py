"""``warplens doctor``: facts about the installation, machine and terminal, and about how an input was read."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from .. import private, registry
from ..native.build import programs
from ..native.program import SHIPPED, can_compile, compiled_here, locate
from ..trace import TABLE_NAMES, Trace
from . import cache
from .record_next import record_next

PACKAGES = ("textual", "polars", "numpy", "scipy", "orjson", "msgspec", "isal", "zstandard", "numba")
_NAMED = 12  # Maximum items of a list that are named.
TERMINAL = ("TERM", "COLORTERM", "NO_COLOR", "TMUX", "LANG")


def facts() -> Iterator[tuple[str, str]]:
    """(name, value) lines about the installation; only the environment variables in ``TERMINAL`` are read."""
    yield "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"
    yield "readers", _readers()
    yield "cache", f"{cache.path()}, at most {cache.limit() / 1e9:,.1f} GB, {_writable(cache.path())}"
    if sys.stdout.isatty():
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
        yield "terminal", f"{columns}x{lines}"
    else:
        yield "terminal", "none"
    for name in TERMINAL:
        if name in os.environ:
            yield name, os.environ[name]


def _readers() -> str:
    """Whether all programs have machine code for this processor, and if not, how to get it."""
    located = [locate(program) for program in programs()]
    targets = sorted({code.target for code in located if code is not None})
    if None not in located:
        shipped = all(code is not None and code.folder == SHIPPED for code in located)
        return f"compiled for {', '.join(targets)}, {'with the package' if shipped else f'in {compiled_here()}'}"
    if can_compile():
        return "not compiled yet for this processor: the first big trace starts it"
    return "not compiled for this processor, so big traces read about ten times slower: pip install 'warplens[compile]'"


def _writable(folder: Path) -> str:
    try:
        with TemporaryFile(dir=private.make(folder)) as file:
            file.write(b"x")
    except OSError as error:
        return f"cannot be written: {error.strerror or error}"
    return "can be written"


def run_facts(
    traces: tuple[Trace, ...], refused: frozenset[int] = frozenset(),
    links_of: Callable[[Trace], dict[str, Any]] = attrgetter("links"),
) -> Iterator[tuple[str, str]]:
    """(name, value) lines about an input: metadata, tables, missing tables and columns, dropped events, how launch
    calls and operators are known, warnings. ``refused``: the numbers of runs with a refused capture;
    ``links_of``: a run's ``links``, with those of its captures.

    Metadata about the recorded process, such as command line and environment, is not included.
    """
    for number, trace in enumerate(traces):
        if len(traces) > 1:
            yield "run", f"{number} of {len(traces)}, {trace.info.label}"
        yield from _about(trace)
        filled = [name for name in TABLE_NAMES if trace.has(name)]
        for name in filled:
            yield name, _table(trace, name)
        if lacking := [name for name in TABLE_NAMES if name not in filled]:
            yield "not in it", ", ".join(lacking)
        tables = trace.info.facts.get("tables") or [
            (f"{Path(trace.info.source).name} ({name})", _rows(trace, name), True) for name in filled]
        for table, rows, is_read in tables:
            yield "tables", f"{table} {rows:,} rows {'read' if is_read else 'not read'}"
        ignored = trace.info.facts.get("ignored") or {}
        if ignored:
            yield "left out", _listed([f"{what}: {count:,}" for what, count in ignored.items()])
        for advice in record_next(trace):
            yield "record next", advice
        links = links_of(trace) if trace.has("kernels") or trace.has("host") else {}
        yield from _links(links)
        for warning in trace.info.warnings:
            yield "found", warning
        repeats = trace.info.facts.get("repeats_of_others") or ()  # which the file holds in another form
        all_read = all(is_read or name in repeats for name, _, is_read in tables) and not ignored.keys() - {*repeats}
        if all_read and not trace.info.warnings and number not in refused and not _wrong(links):
            yield "found", "nothing was wrong"


def _links(links: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """How launch calls, operators and processes are known, and which launch calls have no record."""
    call, op, external = (links.get(name) or {} for name in ("call", "op", "external_id"))
    total = sum(call.values())
    if total > call.get("none", 0):
        yield "launches", _by(call, total)
    if total and (total > op.get("none", 0) or external["tested"]):
        tested = f"{external['agree']:,} of {external['tested']:,} name the operator around the launch"
        unused = f"; External id not used: {tested}" if external["tested"] and not external["used"] else ""
        yield "operators", _by(op, total) + unused
    if len(processes := links.get("processes") or []) > 1:
        yield "processes", f"{len(processes)} ({_listed([str(one['process'] or one['rank']) for one in processes])})"
    if links.get("lost"):
        yield "lost", f"{links['lost']:,} of {links['launch_calls']:,} launch calls have no record of their kernel"
    if links.get("cut"):
        yield "cut", f"{links['cut']:,} launch calls after the last one with a record: the recording ended"


def _by(counts: dict[str, int], total: int) -> str:
    known = [f"{count:,} of {total:,} by {how}" for how, count in counts.items() if how != "none"]
    return ", ".join([*known, *([f"{counts['none']:,} unknown"] if counts.get("none") else [])])


def _wrong(links: dict[str, Any]) -> bool:
    """Whether records are missing, repeated or without a time, or External ids name something else than operators."""
    external = links.get("external_id") or {"tested": 0, "used": True}
    return any(links.get(name) for name in ("lost", "repeats", "timeless")) or bool(
        external["tested"] and not external["used"])


def _about(trace: Trace) -> Iterator[tuple[str, str]]:
    info = trace.info
    title = next((loader.title for loader in registry.loaders() if loader.name == info.format), "")
    yield "file", f"{info.source}{f', {info.bytes:,} bytes' if info.bytes is not None else ''}"
    yield "format", f"{info.format}: {title}"
    if info.tool:
        yield "written by", info.tool
    yield "clock", info.clock or "not recorded"
    yield "zero is", f"{info.epoch_ns:,} ns since 1970" if info.epoch_ns is not None else "unknown on the wall clock"
    yield "devices", _listed([f"{one.id} ({one.name})" if one.name else one.id for one in info.devices]) or "none named"
    if info.ranks:
        yield "ranks", _listed([str(rank) for rank in info.ranks])
    if info.coverage is not None:
        yield "read", f"{100 * info.coverage:.0f}% of the file"
    if info.serialised:
        yield "replayed", "launches ran one by one: their sum is not wall time"


def _table(trace: Trace, name: str) -> str:
    """Number of rows, partly filled columns with their share of rows, and empty columns."""
    import polars as pl

    from ..schema import columns_of

    frame = trace.table(name)
    columns = [column for column in columns_of(frame).names() if column != "by"]  # worked out here, never recorded
    counted = frame.select(pl.len().alias("_rows"), *(pl.col(column).null_count() for column in columns)).collect()
    rows = int(counted["_rows"][0])
    empty = [column for column in columns if counted[column][0] == rows]
    # neither all nor none, whatever it rounds to
    partly = [f"{column} ({min(max(100 * (1 - counted[column][0] / rows), 0.1), 99.9):.3g}%)" for column in columns
              if 0 < counted[column][0] < rows]
    text = f"{rows:,} rows"
    if partly:
        text += f"; in part: {_listed(partly)}"
    return text + (f"; never recorded: {', '.join(empty)}" if empty else "")


def _rows(trace: Trace, name: str) -> int:
    import polars as pl

    return int(trace.table(name).select(pl.len()).collect().item())


def _listed(texts: list[str]) -> str:
    more = f" and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return ", ".join(texts[:_NAMED]) + more
