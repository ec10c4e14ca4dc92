"""A hostile trace in a real terminal, over every surface: no control byte gets there, no markup acts, nothing crashes.

Each step sends keys and waits until the surface it opens shows something the trace said, so that a surface that is not
reached fails; at the end everything the terminal received is taken apart.
"""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile import ATTACKS, FILE, SHOWN_FILE, acting, copies, write_profile, write_trace
from terminal import Session

WARPLENS = [sys.executable, "-m", "warplens"]
ESC = b"\x1b"
PASTED = b"\x1b[200~" + "\x07\x08\x7f\x9b31m\x9d0;t\x9c\u202e[red]pasted[/red]".encode() + b"\x1b[201~"
KERNELS = ("[red]markup[/red]", "[/nope]", "␛[66;6H␛[666mpen", "␛]52;c;RVZJTA==␇clip")
"""Some of the names as they are to be read."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an attack in its own name, and two traces and two cycle profiles in it."""
    here = tmp_path / "dir\x1b[666m[red]"
    here.mkdir()
    write_trace(here / FILE)
    write_trace(here / f"b{FILE}", slow=3.0)
    write_profile(here / "pro\x1b[666mfile")
    write_profile(here / "pro\x1b[666mfile b", slow=3.0)
    return here


@pytest.fixture
def opened() -> Iterator[list[Session]]:
    """Sessions to be ended."""
    sessions: list[Session] = []
    yield sessions
    for session in sessions:
        session.close()


def start(folder: Path, opened: list[Session], *words: str, **env: str) -> Session:
    opened.append(Session([*WARPLENS, *words], folder=folder, **env))
    return opened[-1]


def walk(session: Session, steps: list[tuple[bytes, tuple[str, ...]]]) -> None:
    """Send keys and wait for what they show."""
    for keys, wanted in steps:
        session.send(keys)
        session.until_shown(*wanted)


def test_every_view_and_every_panel_of_a_pair(folder: Path, opened: list[Session]) -> None:
    session = start(folder, opened, FILE, f"b{FILE}")
    session.until_shown("slower", KERNELS[2], " → bevil")
    walk(session, [
        (b"\r", ("Diff: details", KERNELS[2])), (ESC, ("not : details",)),
        (b"1", ("▐1 Overview▌", "One step on one scale", "␛[66;6H␛[666mpen")), (b"x", ("run A",)), (b"x", ("run B",)),
        (b"2", ("▐2 Cycles▌", "ProfilerStep#")), (b"x", ("A and B",)), (b"x", ("run A",)),
        (b"\r", ("Cycles: details", "␛[66;6H␛[666mpen")),
        (ESC, ("not : details",)), (b"c", ("cycle 1",)), (b"x", ("run B",)), (b"x", ("A and B",)),
        (b"3", ("▐3 Kernels▌", *KERNELS[:2])), (b"C", ("all cycles",)), (b"G\r", ("Kernels: details", "title")),
        (ESC, ("not : details",)), (b"x", ("run A", "o k  ")),
        (b"g\r", ("Kernels: details", "ns::k<␛[666mT, [red]>")),
        (ESC, ("not : details",)), (b"llllllh>r", ("⏎ open",)), (b"z", ("kernel ",)), (b"z", ("▐3",)),
        (b"4", ("▐4 Launches▌", KERNELS[2])), (b"jjj\r", ("Launches: details", "[/nope]")), (ESC, ("not : details",)),
        (b"5", ("▐5 Ops▌", "aten::[/nope]")), (b"\r", ("Ops: details", "aten::")), (ESC, ("not : details",)),
        (b"w", ("Warnings and notes", "control characters in strings", "␛]0;PWNED")), (ESC, ("not Warnings",)),
        (b"x", ("run B",)), (b"x", ("A and B",)),
        (b"?", ("Help: Ops", "(count_per_cycle_b)")), (b"\x1b[6~", ("(device_total_ns_delta)",)),
        (ESC, ("not Help: Ops",)),
        (b":", ("View: Overview",)), (PASTED, ("[red]pasted",)), (ESC, ("not [red]pasted",)),
    ])
    session.send(b"q")
    assert acting(session.ended()) == []


def test_prompts_notifications_exports_and_the_clipboard(folder: Path, opened: list[Session]) -> None:
    session = start(folder, opened, FILE, "--view", "kernels")
    session.until_shown(SHOWN_FILE, *KERNELS)
    walk(session, [
        (b"/", ("text in any column",)), (PASTED, ("[red]pasted", "No match.")),
        (b"\r", ("⏎ open", "/31m0;t[red]pasted[/red]")), (ESC, ("not pasted",)),
        (b"f", ("share>5%",)), (PASTED, ("[red]pasted",)), (b"\r", ("0 of 24",)), (b"u", ("24 of 24",)),
        (b"f", ("share>5%",)), (b"total>" + PASTED + b"\r", ("total>31m0;t[red]pasted",)), (ESC, ("not total>",)),
        (b"e", ("warplens-kernels-evil",)),
        (b"E", ("write to",)), (b"\x15", ("write to     ",)),
        (PASTED.replace(b"[/", b"[") + b".md\r", ("[red]pasted[red", "not write to")),  # the prompt shows it too
        (b"E", ("write to",)), (b"\x15", ("write to     ",)), (PASTED + b"/x.md\r", ("No such file",)),
        (b"E", ("write to",)), (b"\x15", ("write to     ",)), (PASTED + b"\r", ("is not an export format",)),
        (b"y", ("Sent",)), (b"\x03", ("Nothing to cancel",)),
        (b"o", ("one, or two to compare",)),
    ])
    session.until_shown("4 traces", "evil␛]0;PWNED␇␛[666m[re…", "pro␛[666mfile b")
    walk(session, [
        (b"o", ("a path, or two",)), (PASTED, ("[red]pasted",)), (b"\r", ("[red]pasted", "no such file")),
    ])
    session.send(b"q")
    received = session.ended()
    assert acting(received) == []
    (copied,) = copies(received)
    text = base64.b64decode(copied).decode()
    assert text.startswith("# warplens: ") and "red" in text
    assert acting(text.replace("\n", "").encode()) == []


WATCHING = """
import sys
from warplens.cli import main as cli
from warplens.tui.app import background
from warplens.tui.session import watch
def look(self, look=watch.Watch.look):
    self._known = self._known or set()  # what is there at the first look is new, too
    return look(self)
background.EVERY, watch.Watch.look = 0.05, look
sys.exit(cli.main())
"""


def test_loading_stopping_watching_and_what_cannot_be_read(folder: Path, opened: list[Session]) -> None:
    pipe = folder / f"pipe {FILE}"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)  # somebody who never writes
    (folder / "new").mkdir()
    opened.append(Session([sys.executable, "-c", WATCHING, pipe.name, "--watch", "new"], folder=folder))
    session = opened[-1]
    session.until_shown("opening", "pipe evil␛]0;PWNED␇")
    write_trace(folder / "new" / f"new {FILE}")
    walk(session, [
        (b"", ("New trace: new", "␛[666m[red]f…ld]")), (b"\x03", ("Stopped: pipe evil␛]0;PWNED␇", "stopped")),
        (b"o", ("one, or two to compare", "evil␛]0;PWNED␇")), (b"o", ("a path, or two",)),
        (PASTED, ("[red]pasted",)),
    ])
    os.close(writer)
    session.send(b"\r")
    session.until_shown("31m0;t[red]pasted", "no such file")
    session.send(b"q")
    received = session.ended()
    assert b"no such file" in received[received.rindex(b"\x1b[?1049l"):], "said again where it stays"
    assert acting(received) == []


CRASH = """
import sys
from warplens.cli import main as cli
from warplens.tui.app.screen import MainScreen
def failing(self):
    local = sys.argv[1]
    raise ValueError(local)
MainScreen.action_help = failing
sys.exit(cli.main([sys.argv[2], "--view", "kernels"]))
"""


def test_a_crash_prints_nothing_of_the_trace(folder: Path, opened: list[Session]) -> None:
    opened.append(Session([sys.executable, "-c", CRASH, f"SECRET{ATTACKS[2]}", FILE], folder=folder))
    session = opened[-1]
    session.until_shown(KERNELS[0])
    session.send(b"?")
    received = session.ended()
    said = received[received.rindex(b"\x1b[?1049l"):]
    assert b"ValueError" in said and b"in failing" in said
    assert b"SECRET" not in received
    before, _, after = received.rpartition(b"\x07")  # the one bell it rings
    assert acting(before) + acting(after) == []


COMMANDS = """
import sys
from warplens.cli.main import main
for words in {commands!r}:
    try:
        print("==", main(words))
    except SystemExit as stopped:
        print("==", stopped.code)
"""


@pytest.mark.parametrize("part", ["views", "pairs", "wrong"])
def test_commands_in_a_terminal(part: str, folder: Path, opened: list[Session], deep: bool) -> None:
    """Every command with standard output and standard error on the terminal."""
    evil, other = "".join(ATTACKS[:4]).replace("/", ""), f"b{FILE}"
    (folder / "garbage").write_text(evil)
    views = ("overview", "cycles", "kernels", "launches", "ops")
    profiles = ("pro\x1b[666mfile", "pro\x1b[666mfile b")
    commands = {
        "views": [
            ["report", FILE], *(["report", FILE, "--view", view] for view in views),
            *(["report", FILE, "--view", "kernels", "--format", one] for one in ("md", "json", "csv")),
            ["report", FILE, "--view", "launches", "--format", "kernel-table"],
            ["report", FILE, "--view", "kernels", "-o", f"{evil}.md"], ["convert", FILE, "-o", f"out {evil}"],
            ["sql", FILE, "select name from kernels", "--format", "csv"], ["cache"], ["cache", "path"], ["doctor"],
        ],
        "pairs": [
            ["report", FILE, other], ["report", *profiles], ["diff", FILE, other, "--fail-on", "regression"],
            ["diff", *profiles, "--format", "md"], ["report", *profiles, "--view", "pairs", "--format", "csv"],
            *([["report", FILE, other, "--format", "json"], ["diff", *profiles, "--fail-on", "regression"],
               ["diff", "--baseline", FILE, other, "--candidate", other, FILE]] if deep else []),
        ],
        "wrong": [
            ["report", f"missing {evil}"], ["report", "garbage"], ["diff", FILE, f"missing {evil}"],
            ["sql", FILE, f"select {evil}"], ["report", FILE, "--view", "kernels", "--filter", f"total_ns>{evil}"],
            ["report", FILE, "--view", "kernels", "--sort", evil], ["report", FILE, "--view", evil],
            ["report", FILE, f"--{evil}"], ["report", FILE, "--cycle-anchor", f"({evil}"], 
            ["report", FILE, "--pid", evil],
            ["report", FILE, "--top", evil], ["report", FILE, "--view", "kernels", "-o", f"no/{evil}.md"],
            ["diff", FILE, other, "--fail-on", evil], [FILE, "--theme", evil], ["report", FILE, "--format", evil],
        ],
    }[part]
    opened.append(Session([sys.executable, "-c", COMMANDS.format(commands=commands)], folder=folder))
    received = opened[-1].ended()
    assert acting(received) == []
    statuses = [int(found) for found in re.findall(r"^== (\d+)\r", received.decode(), re.MULTILINE)]
    assert len(statuses) == len(commands)
    assert b"Traceback" not in received
    assert all(status in (2, 3) for status in statuses) if part == "wrong" else set(statuses) <= {0, 1}
