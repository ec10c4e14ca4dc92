"""The recorded process's environment variables, command line and machine, for ``doctor --environment``.

This metadata may contain tokens and passwords, so no table, view, report, export or cache holds any of it. It is read
from the file only on request and printed only to the user's terminal.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from .errors import Unreadable
from .ingest import limits, sqlite_file, stream

Facts = Iterator[tuple[str, str]]
_TABLE = re.compile(r"META_?DATA|SYSTEM_ENV|INFO_PROCESS|INFO_NODE|PROCESSES|HOST_INFO|EXPORT", re.IGNORECASE)
"""Tables of Nsight Systems, rocpd, rocmProfileData and Ascend that describe the process and its machine."""
_MOST_ROWS = 200
_TAIL_BYTES = 1 << 20
_TRACE_KEYS = ("traceEvents", "deviceProperties")


class _Process(msgspec.Struct):
    metadata: dict[str, Any] = {}


class _Rocprofv3(msgspec.Struct):
    processes: list[_Process] = msgspec.field(name="rocprofiler-sdk-tool")


def recorded(path: Path) -> Facts:
    """(name, value) pairs of the file's metadata about the process; empty for formats that record none. Raises OSError,
    and Unreadable if the file cannot be read."""
    with stream.Source(path) as source:
        start = source.read(64 << 10)
    if start.startswith(sqlite_file.MAGIC):
        yield from _database(path)
    elif start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{":
        yield from _json(path, b"rocprofiler-sdk-tool" in start)


def _database(path: Path) -> Facts:
    with stream.Source(path) as source:
        if source.compressed:
            raise Unreadable(path, "is a compressed database", "Unpack it to see what it says of its process.")
    connection = sqlite_file.connect(path)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        for kind, name, _, _ in sqlite_file.schema(connection):
            if kind != "table" or not isinstance(name, str):
                continue
            quoted = '"' + name.replace('"', '""') + '"'
            if name == "StringIds":  # Nsight Systems stores the environment block in the string table
                query = "select value from StringIds where instr(cast(value as blob), x'00')"
            elif _TABLE.search(name):
                query = f"select * from {quoted}"
            else:
                continue
            for rows in sqlite_file.batches(connection.execute(f"{query} limit {_MOST_ROWS}"), _MOST_ROWS):
                for row in rows:
                    yield from _lines(name, "  ".join(str(value) for value in row if value is not None))
    except sqlite3.Error as error:
        yield "damaged", " ".join(str(error).split())
    finally:
        connection.close()


def _json(path: Path, is_rocprofv3: bool) -> Facts:
    if is_rocprofv3:
        try:
            written = msgspec.json.decode(stream.read_all(path)[0], type=_Rocprofv3)
        except msgspec.MsgspecError as error:
            raise Unreadable(path, f"is damaged ({error})", "Record or copy it again.") from None
        for process in written.processes:
            yield from _flat("", process.metadata)
        return
    from .kineto.document import HEADER_BYTES, Trailer, events_end, open_document

    with stream.Source(path) as source:
        try:
            document = open_document(source, HEADER_BYTES)
        except limits.Exceeded as error:
            raise error.unreadable(path) from None
        tail = document.rest
        while block := source.read():
            tail = (tail + block)[-_TAIL_BYTES:]
    for offset in events_end(tail):
        trailer = Trailer()
        trailer.add(tail[offset + 1 :])
        if trailer.closes(document) and trailer.unread is None:
            break
    for key, value in document.values.items():
        if key not in _TRACE_KEYS:
            yield from _flat(key, value)


def _flat(name: str, value: object) -> Facts:
    """Flatten nested values to (dotted path, text) pairs."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), inner)
    elif isinstance(value, list) and any(isinstance(inner, dict | list) for inner in value):
        for number, inner in enumerate(value[:_MOST_ROWS]):
            yield from _flat(f"{name}.{number}", inner)
    else:
        yield from _lines(name, ", ".join(map(str, value)) if isinstance(value, list) else str(value))


def _lines(name: str, text: str) -> Facts:
    """Split a NUL-separated environment block into one pair per variable."""
    for field in text.split("\0"):
        if field.strip():
            yield name, field
