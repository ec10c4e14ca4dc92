"""State remembered between sessions: recently opened traces, and how each set of runs was last viewed.

One JSON file in the user's state folder, written under a temporary name and renamed. It is a convenience: if it cannot
be read or written, nothing is reported and nothing else fails.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from msgspec import ValidationError, convert
from msgspec.structs import asdict, replace

from ...loaders import files
from .session import SUBJECTS, Arrangement, Choice, Session, TimeNote, ViewState

MOST_RECENT = 20
MOST_SESSIONS = 50
MOST_MARKS = 1000
MOST_NOTED = 1000
"""Most recordings whose notes are kept."""
MOST_QUERIES = 200
CHOICES = get_args(Choice)


def state_path() -> Path:
    """Path of the state file."""
    from platformdirs import user_state_path

    return user_state_path("warplens") / "state.json"


def _read() -> dict[str, Any]:
    try:
        state = json.loads(state_path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _write(state: dict[str, Any]) -> None:
    path = state_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, [json.dumps(state).encode()])
    except OSError:
        return


def _key(paths: Sequence[str]) -> str:
    return "\n".join(os.path.abspath(path) for path in paths)


def recent() -> list[tuple[Path, str]]:
    """Recently opened traces that still exist, newest first, with their format."""
    recordings: list[tuple[Path, str]] = []
    for one in _read().get("recent", []):
        if isinstance(one, dict) and isinstance(one.get("path"), str) and Path(one["path"]).exists():
            recordings.append((Path(one["path"]), str(one.get("format", ""))))
    return recordings


def keep(session: Session) -> None:
    """Save which inputs are open and how they are viewed."""
    lasting = (run for run in session.inputs if run.traces and run.path != "-")
    opened = [run for run in lasting if run.traces[0].info.format != "history"]
    if not opened:
        return
    stored = _read()
    now = [{"path": os.path.abspath(run.path), "format": run.traces[0].info.format} for run in opened]
    paths = {one["path"] for one in now}
    before = [one for one in stored.get("recent", []) if isinstance(one, dict) and one.get("path") not in paths]
    stored["recent"] = (now + before)[:MOST_RECENT]
    sessions = stored.get("sessions")
    sessions = sessions if isinstance(sessions, dict) else {}
    key = _key([run.path for run in session.inputs])
    sessions.pop(key, None)
    sessions[key] = {
        "view": session.current, "cycle": session.cycle, "cycle_b": session.cycle_b,
        "rank": session.rank, "rank_b": session.rank_b, "query": session.query, "at": int(time.time()),
        "subject": session.subject,
        "views": {name: _view(state) for name, state in session.views.items()},
    }
    stored["sessions"] = dict(list(sessions.items())[-MOST_SESSIONS:])
    notes = stored.get("time_notes")
    notes = notes if isinstance(notes, dict) else {}
    alone = len(session.inputs) == 1  # a single input may hold two runs
    of_paths = [os.path.abspath(run.path) for run in session.inputs]
    for path in dict.fromkeys(of_paths):
        notes.pop(path, None)
        own = [note if alone else replace(note, run=0) for note in session.time_notes
                if alone or of_paths[note.run] == path]
        if own and path != os.path.abspath("-"):
            notes[path] = [asdict(note) for note in dict.fromkeys(own[:MOST_MARKS])]
    stored["time_notes"] = dict(list(notes.items())[-MOST_NOTED:])
    _write(stored)


def _view(state: ViewState) -> dict[str, Any]:
    others = {rows: _marks(one) for rows, one in state.others.items() if one.marks}
    return {"arrangement": asdict(state.arrangement), "rows": state.rows, **_marks(state), "others": others}


def _marks(state: ViewState) -> dict[str, Any]:
    return {"marks": sorted(state.marks)[:MOST_MARKS], "cursor": state.cursor, "notes": _texts(state.notes),
            "words": _texts(state.words)}


def restore(session: Session) -> bool:
    """Restore the saved state of the open inputs; False if there is none. Entries that do not parse are skipped."""
    own = _saved(session)
    if own is None:
        return False
    session.current = str(own.get("view", ""))
    session.cycle, session.cycle_b = _whole(own.get("cycle")), _whole(own.get("cycle_b"))
    session.rank, session.rank_b = _whole(own.get("rank")), _whole(own.get("rank_b"))
    session.query = str(own.get("query") or "")
    session.subject = next((one for one in SUBJECTS if one == own.get("subject")), "both")
    session.views.update(_states(own))
    return True


def restore_notes(session: Session) -> None:
    """Take up the notes on times of each open input, and those on rows of these inputs together."""
    stored, session.time_notes = _read().get("time_notes"), []
    for at, run in enumerate(session.inputs):
        notes = stored.get(os.path.abspath(run.path)) if isinstance(stored, dict) else None
        for given in notes if isinstance(notes, list) else ():
            try:
                note = convert(given, TimeNote)
            except ValidationError:
                continue
            session.time_notes.append(note if len(session.inputs) == 1 else replace(note, run=at))
    for name, state in _states(_saved(session) or {}):
        noted = {rows: ViewState(marks=set(one.notes), notes=one.notes, words=one.words)
                 for rows, one in (*state.others.items(), (state.rows or "|both|", state)) if one.notes}
        if noted:
            session.views[name] = ViewState(others=noted)


def _saved(session: Session) -> dict[str, Any] | None:
    sessions = _read().get("sessions", {})
    matching = sessions.get(_key([run.path for run in session.inputs])) if isinstance(sessions, dict) else None
    return matching if isinstance(matching, dict) else None


def _states(saved: dict[str, Any]) -> Iterator[tuple[str, ViewState]]:
    views = saved.get("views")
    for name, given in views.items() if isinstance(views, dict) else ():
        try:
            state = _marked(given)
            state.arrangement, state.rows = Arrangement(**given["arrangement"]), _text(given.get("rows"))
            state.others = {str(rows): _marked(one) for rows, one in given.get("others", {}).items()}
            yield str(name), state
        except (AttributeError, KeyError, TypeError, ValueError):
            continue


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _marked(given: Mapping[str, Any]) -> ViewState:
    return ViewState(marks={int(mark) for mark in given["marks"]}, cursor=int(given["cursor"]),
                     notes=_numbered(given.get("notes")), words=_numbered(given.get("words")))


def queries() -> list[str]:
    """SQL statements typed before, newest last."""
    stored = _read().get("queries", [])
    return [one for one in stored if isinstance(one, str)] if isinstance(stored, list) else []


def keep_query(statement: str) -> list[str]:
    """Save a statement as the newest; returns all saved ones."""
    state = _read()
    every = [*(one for one in queries() if one != statement), statement][-MOST_QUERIES:]
    state["queries"] = every
    _write(state)
    return every


def columns(view: str) -> dict[str, Choice]:
    """Saved column choices of a view, shared by all runs."""
    stored = _read().get("columns", {})
    matching = stored.get(view) if isinstance(stored, dict) else None
    return {str(name): one for name, one in matching.items() if one in CHOICES} if isinstance(matching, dict) else {}


def keep_columns(view: str, choices: Mapping[str, Choice]) -> None:
    """Save the column choices of a view."""
    state = _read()
    before = state.get("columns")
    state["columns"] = {**(before if isinstance(before, dict) else {}), view: dict(choices)}
    _write(state)


def _texts(texts: dict[int, str]) -> dict[str, str]:
    return {str(mark): text for mark, text in list(texts.items())[:MOST_MARKS]}


def _numbered(texts: Any) -> dict[int, str]:
    return {int(mark): str(text) for mark, text in texts.items()} if isinstance(texts, dict) else {}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
