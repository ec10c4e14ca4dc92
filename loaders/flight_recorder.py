"""Dumps of PyTorch's flight recorder (``TORCH_NCCL_TRACE_BUFFER_SIZE``): the collectives that one rank enqueued last.

One file per rank, JSON or a pickle of plain data, with ``pg_config`` (process group → members), ``pg_status`` (the last
collective of each that was enqueued, started, completed) and ``entries`` (keys of ``FlightRecorder.hpp`` in PyTorch:
``collective_seq_id``, ``process_group``, ``profiling_name``, ``state``, ``input_sizes``, ``input_dtypes``, ``frames``).
The rank is the number at the end of the file's name, where PyTorch puts it, unless the dump says it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from .errors import Unreadable
from .loader import FormatLoader, Job
from .trace import Info, Trace

_KEYS = rb"collective_seq_id|pg_status|pg_config|profiling_name"
_JSON = re.compile(rb"\A\s*\{(?s:.*?)\"(?:collective_seq_id|pg_status|profiling_name)\"\s*:")
_CONFIG = re.compile(rb"\A\s*\{(?s:.*?)\"pg_config\"\s*:\s*\{(?s:.*?)\"(?:ranks|desc)\"\s*:")
_PICKLE = re.compile(rb"\A\x80[\x02-\x05](?s:.*?)(?:" + _KEYS + rb")")
_TRACE = re.compile(rb"\"traceEvents\"|\"displayTimeUnit\"")
_RANK = re.compile(r"(\d+)\D*$")
_PEERS = re.compile(r"(send|recv)\s+(\d+)\s*(->|<-)\s*(\d+)")
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python\d|[/\\]torch[/\\]|^<|\.(?:so|cpp|h|c)\b")
_AGAIN = "Dump it again, or give the other ranks' dumps."
STATUS = "status"
"""``state`` of a row that says how far a group is rather than what was called: one for each group of the rank."""
_STATES = ("scheduled", "started", "completed")


class FlightRecorder(FormatLoader):
    """Loader of such dumps."""

    name = "flight-recorder"
    title = "Flight recorder dump of PyTorch (NCCL): the last collectives of each rank, JSON or pickle"
    suffixes = (".json", ".pickle")
    version = 4
    fills = ("enqueued",)
    folder_is_one_run = True

    def sniff(self, head: bytes) -> bool:
        """Accept a document or a pickle with the keys of a dump."""
        if _PICKLE.match(head):
            return True
        return _TRACE.search(head) is None and (_JSON.match(head) is not None or _CONFIG.match(head) is not None)

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``enqueued``. Raises Unreadable if it is damaged or holds code."""
        from . import schema
        from .ingest import limits, stream
        from .recording.faults import Faults

        data, fault = stream.read_all(job.path)
        try:
            limits.check("snapshot", len(data), f"holds {len(data):,} bytes")
        except limits.Exceeded as error:
            raise error.unreadable(job.path) from None
        content = _content(job.path, data, fault)
        faults = Faults()
        rows, rank = _rows(content, faults), _rank(content, job.path)
        if not rows:
            raise Unreadable(job.path, "is a flight recorder dump without a process group", _AGAIN)
        job.progress(len(data), len(data), len(rows))
        version = content.get("version")
        info = Info(
            str(job.path), job.path.stem, self.name, tool="PyTorch's flight recorder", bytes=len(data),
            ranks=() if rank is None else (rank,), clock="UTC",
            warnings=tuple(faults.warnings()), facts={
                **({"dump_version": str(version)} if version is not None else {}),
                "tables": [("entries", sum(row["state"] != STATUS for row in rows), True),
                           *((str(key), len(rest), False) for key, rest in content.items()
                             if isinstance(rest, list) and rest and key != "entries")]},
        )
        trace = Trace(info, enqueued=schema.conform("enqueued", _frame(rows, rank).lazy()))
        return (trace.warn(fault) if fault else trace,)


def _content(path: Path, data: bytes, fault: str | None) -> dict[str, Any]:
    """The dump as plain data. Raises Unreadable."""
    from .memory_snapshot import plain_pickle

    if data[:1] == b"\x80":
        try:
            content = plain_pickle.load(data, tuples=True)
        except plain_pickle.NotPlain as error:
            holds = "holds code: it " if "objects" in str(error) else ""
            raise Unreadable(path, f"is {fault}" if fault else f"{holds}{error}", _AGAIN) from None
    else:
        try:
            content = json.loads(data)
        except (ValueError, RecursionError):
            raise Unreadable(path, f"is {fault or 'no whole JSON document'}", _AGAIN) from None
    if not isinstance(content, dict) or not isinstance(content.get("entries", []), list):
        raise Unreadable(path, "is no flight recorder dump: it has no list of entries", _AGAIN)
    return content


def _rank(content: dict[str, Any], path: Path) -> int | None:
    recorded = content.get("rank")
    if type(recorded) is int and 0 <= recorded < 1 << 31:
        return recorded
    match = _RANK.search(path.name.removesuffix(path.suffix) if path.suffix in (".json", ".pickle", ".pkl")
                        else path.name)
    return int(match[1]) if match and len(match[1]) < 8 else None


def _rows(content: dict[str, Any], faults: Any) -> list[dict[str, Any]]:
    """The calls in the order in which they were enqueued, and a row of ``STATUS`` for each group of the rank."""
    members, described = _groups(content.get("pg_config"))
    rows = [row for entry in content.get("entries") or () if (row := _call(entry, members, faults)) is not None]
    rows.sort(key=lambda row: row["record"])
    status = content.get("pg_status")
    status = status if isinstance(status, dict) else {}
    for name in dict.fromkeys((*members, *map(str, status))):
        last = status.get(name)
        last = last if isinstance(last, dict) else {}
        counts = {
            f"last_{state}": _whole(last.get(f"last_{key}_collective"), faults, f"last_{key}_collective")
            for state, key in zip(_STATES, ("enqueued", "started", "completed"), strict=True)}
        rows.append({"process_group": name, "description": described.get(name), "state": STATUS,
                     "group_ranks": members.get(name), "record": -1, **counts})
    for row in rows:
        row["description"] = row["description"] or described.get(row["process_group"])
    return rows


def _groups(config: Any) -> tuple[dict[str, str | None], dict[str, str]]:
    """Members ('0,1,2') and description of each process group by name."""
    members: dict[str, str | None] = {}
    described: dict[str, str] = {}
    for key, one in (config if isinstance(config, dict) else {}).items():
        if not isinstance(one, dict):
            continue
        name = one.get("name") if isinstance(one.get("name"), str) else str(key)
        ranks = one.get("ranks")
        if isinstance(ranks, str):
            ranks = [int(text) for text in re.findall(r"\d{1,9}", ranks)]
        whole = isinstance(ranks, list) and all(type(rank) is int and 0 <= rank < 1 << 31 for rank in ranks)
        members[str(name)] = ",".join(map(str, sorted(ranks))) if whole and ranks else None
        if text := _described(one.get("desc")):
            described[str(name)] = text
    return members, described


def _described(text: Any) -> str | None:
    return text if isinstance(text, str) and text not in ("", "undefined") else None


def _call(entry: Any, members: dict[str, str | None], faults: Any) -> dict[str, Any] | None:
    """One entry as a row; None (counted) where it is no call of a group."""
    group = entry.get("process_group") if isinstance(entry, dict) else None
    group = group if isinstance(group, list | tuple) else (group,)
    if group and type(group[0]) is int:
        group = (str(group[0]), *group[1:])
    name, state = (entry.get("profiling_name"), entry.get("state")) if isinstance(entry, dict) else (None, None)
    if not isinstance(entry, dict) or not group or not isinstance(group[0], str) or not isinstance(name, str):
        faults.left_out["entries"] += 1
        return None
    peers = _PEERS.search(name)
    message = entry.get("is_p2p") is True or peers is not None
    seq = "p2p_seq_id" if message and entry.get("p2p_seq_id") else "collective_seq_id"
    if seq not in entry and "seq_id" in entry:
        seq = "seq_id"
    source, target = (peers[2], peers[4]) if peers else (None, None)
    if peers and peers[1] == "recv":
        source, target = target, source
    frames = _frames(entry.get("frames"))
    began = entry.get("time_discovered_started_ns")
    return {
        "process_group": group[0], "description": _described(group[1]) if len(group) > 1 else None,
        "group_ranks": members.get(group[0]), "seq": _whole(entry.get(seq), faults, seq),
        "record": _whole(entry.get("record_id", entry.get("id")), faults, "record_id") or 0,
        "name": _PEERS.sub(lambda match: match[1], name.partition(":")[2] or name), "message": message,
        "src_rank": None if source is None else int(source), "dst_rank": None if target is None else int(target),
        "state": state if state in _STATES else None, "timed": type(began) is int or state == "started",
        "sizes": _text(entry.get("input_sizes")), "dtype": _text(entry.get("input_dtypes")),
        "start_ns": _whole(entry.get("time_created_ns"), faults, "time_created_ns"),
        "line": _line(frames), "stack": "\n".join(frames) or None,
    }


def _whole(value: Any, faults: Any, column: str) -> int | None:
    """A whole number as recorded; a number of 64 bits without a sign (−1: none yet) is one with a sign."""
    from .recording.values import number

    if type(value) is int and 1 << 63 <= value < 1 << 64:
        value -= 1 << 64
    result, reason = number(value, "id")
    if reason:
        faults.wrong("entries", column, reason)
    return None if result is None else int(result)


def _text(value: Any) -> str | None:
    """Sizes or types as text: '4096x1024, 16'."""
    if not isinstance(value, list | tuple):
        return value if isinstance(value, str) else None
    return ", ".join("x".join(map(str, one)) if isinstance(one, list | tuple) else str(one) for one in value)[:200]


def _encodable(value: Any) -> Any:
    """The value; of a text, what UTF-8 cannot encode is replaced."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _frames(value: Any) -> list[str]:
    """The stack, innermost frame first: 'file:line function'."""
    frames = []
    for frame in value[:64] if isinstance(value, list) else ():
        if isinstance(frame, dict) and isinstance(frame.get("filename"), str):
            line = frame.get("line")
            frames.append(f"{frame['filename']}:{line if type(line) is int else '?'} {frame.get('name') or ''}".strip())
        elif isinstance(frame, str) and re.match(r"\S+:\d+", frame):
            frames.append(frame)
    return frames


def _line(frames: list[str]) -> str | None:
    """The innermost line of the user's program ('train.py:88'), else the innermost of all."""
    own = next((frame for frame in frames if not _LIBRARY.search(frame)), frames[0] if frames else None)
    return None if own is None else re.split(r"[/\\]", own.partition(" ")[0])[-1]


def _frame(rows: list[dict[str, Any]], rank: int | None) -> Any:
    import polars as pl

    from .schema import TABLES

    names = {column.name: column.dtype for column in TABLES["enqueued"]}
    kinds = {name: pl.String() if dtype == pl.Categorical() else dtype for name, dtype in names.items()}
    columns = {name: [_encodable(row.get(name)) for row in rows] for name in kinds}
    columns["rank"] = [rank] * len(rows)
    return pl.DataFrame(columns, schema=kinds)


LOADER = FlightRecorder()
