"""State remembered between sessions: recently opened traces, and how each set of runs was last viewed.

One JSON file in the user's state folder, written under a temporary name and renamed. It is a convenience: if it cannot
be read or written, nothing is reported and nothing else fails.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from msgspec import ValidationError, convert
from msgspec.structs import asdict

from .session import SUBJECTS, Arrangement, Choice, Session, TimeNote, ViewState

MOST_RECENT = 20
MOST_SESSIONS = 50
MOST_MARKS = 1000
MOST_QUERIES = 200
CHOICES = get_args(Choice)


def state_path() -> Path:
    """Path of the state file."""
    from platformdirs import user_state_path

    return user_state_path("warplens") / "state.json"


def _read() -> dict[str, Any]:
    try:
        kept = json.loads(state_path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _write(kept: dict[str, Any]) -> None:
    path = state_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(kept), encoding="utf-8")
        temporary.replace(path)
    except OSError:
        return


def _key(paths: Sequence[str]) -> str:
    return "\n".join(os.path.abspath(path) for path in paths)


def recent() -> list[tuple[Path, str]]:
    """Recently opened traces that still exist, newest first, with their format."""
    found: list[tuple[Path, str]] = []
    for one in _read().get("recent", []):
        if isinstance(one, dict) and isinstance(one.get("path"), str) and Path(one["path"]).exists():
            found.append((Path(one["path"]), str(one.get("format", ""))))
    return found


def keep(session: Session) -> None:
    """Save which inputs are open and how they are viewed."""
    lasting = (run for run in session.inputs if run.traces and run.path != "-")
    opened = [run for run in lasting if run.traces[0].info.format != "history"]
    if not opened:
        return
    kept = _read()
    now = [{"path": os.path.abspath(run.path), "format": run.traces[0].info.format} for run in opened]
    paths = {one["path"] for one in now}
    before = [one for one in kept.get("recent", []) if isinstance(one, dict) and one.get("path") not in paths]
    kept["recent"] = (now + before)[:MOST_RECENT]
    sessions = kept.get("sessions")
    sessions = sessions if isinstance(sessions, dict) else {}
    key = _key([run.path for run in session.inputs])
    sessions.pop(key, None)
    sessions[key] = {
        "view": session.current, "cycle": session.cycle, "cycle_b": session.cycle_b,
        "rank": session.rank, "rank_b": session.rank_b, "query": session.query, "at": int(time.time()),
        "subject": session.subject,
        "views": {name: _view(state) for name, state in session.views.items()},
        "time_notes": [asdict(note) for note in session.time_notes[:MOST_MARKS]],
    }
    kept["sessions"] = dict(list(sessions.items())[-MOST_SESSIONS:])
    _write(kept)


def _view(state: ViewState) -> dict[str, Any]:
    return {
        "arrangement": asdict(state.arrangement), "marks": sorted(state.marks)[:MOST_MARKS],
        "cursor": state.cursor, "notes": _texts(state.notes), "words": _texts(state.words),
    }


def restore(session: Session) -> bool:
    """Restore the saved state of the open inputs; False if there is none. Entries that do not parse are skipped."""
    kept = _read().get("sessions", {})
    mine = kept.get(_key([run.path for run in session.inputs])) if isinstance(kept, dict) else None
    if not isinstance(mine, dict):
        return False
    session.current = str(mine.get("view", ""))
    session.cycle, session.cycle_b = _whole(mine.get("cycle")), _whole(mine.get("cycle_b"))
    session.rank, session.rank_b = _whole(mine.get("rank")), _whole(mine.get("rank_b"))
    session.query = str(mine.get("query") or "")
    session.subject = next((one for one in SUBJECTS if one == mine.get("subject")), "both")
    for given in mine.get("time_notes") or ():
        try:
            session.time_notes.append(convert(given, TimeNote))
        except ValidationError:
            continue
    for name, given in (mine.get("views") or {}).items():
        try:
            session.views[str(name)] = ViewState(
                arrangement=Arrangement(**given["arrangement"]),
                marks={int(mark) for mark in given["marks"]}, cursor=int(given["cursor"]),
                notes=_numbered(given.get("notes")), words=_numbered(given.get("words")),
            )
        except (KeyError, TypeError, ValueError):
            continue
    return True


def queries() -> list[str]:
    """SQL statements typed before, newest last."""
    kept = _read().get("queries", [])
    return [one for one in kept if isinstance(one, str)] if isinstance(kept, list) else []


def keep_query(statement: str) -> list[str]:
    """Save a statement as the newest; returns all saved ones."""
    kept = _read()
    every = [*(one for one in queries() if one != statement), statement][-MOST_QUERIES:]
    kept["queries"] = every
    _write(kept)
    return every


def columns(view: str) -> dict[str, Choice]:
    """Saved column choices of a view, shared by all runs."""
    kept = _read().get("columns", {})
    mine = kept.get(view) if isinstance(kept, dict) else None
    return {str(name): one for name, one in mine.items() if one in CHOICES} if isinstance(mine, dict) else {}


def keep_columns(view: str, choices: Mapping[str, Choice]) -> None:
    """Save the column choices of a view."""
    kept = _read()
    before = kept.get("columns")
    kept["columns"] = {**(before if isinstance(before, dict) else {}), view: dict(choices)}
    _write(kept)


def _texts(texts: dict[int, str]) -> dict[str, str]:
    return {str(mark): text for mark, text in list(texts.items())[:MOST_MARKS]}


def _numbered(texts: Any) -> dict[int, str]:
    return {int(mark): str(text) for mark, text in texts.items()} if isinstance(texts, dict) else {}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
