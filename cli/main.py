"""The command line: from what was typed to one command, and from what it met to an exit status.

A command is a file beside this one that defines ``COMMAND``, and an entry of ``NAMES``; only the one that was typed is
imported. Results go to stdout, diagnostics and progress to stderr. Exit status: 0 fine, 1 a gate failed, 2 the command
was wrong, 3 the input cannot be read.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from typing import NoReturn

from .. import __version__
from ..library import UsageError
from .arguments import FINE, UNREADABLE, USAGE, Command

NAMES = (
    "open", "report", "diff", "sql", "convert", "slice", "reduce", "history", "formats", "views", "cache", "demo",
    "doctor", "completions", "guide",
)
"""Every command, in the order of the help. The first is what is meant where none is named."""
INTERRUPTED = 130
_COLLECT = 100_000
"""New objects between two looks for dead ones. What is imported stays, and looking through it is a tenth of a start."""


def command_of(name: str) -> Command:
    """The command of that name; imports its module."""
    command: Command = import_module(f".{name}", __package__).COMMAND
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    set_up()
    words = list(sys.argv[1:] if argv is None else argv)
    return _guarded(lambda: _run(words), "--format=json" in words or ("--format", "json") in pairwise(words))


def set_up() -> None:
    """Settings of this process; those of libraries count where these are not imported yet."""
    # Its threads spin for a while after they start, beside the ones that read; nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # polars' allocator keeps freed memory in each of four arenas a core: with two the same question takes 50 MB less.
    os.environ.setdefault("_RJEM_MALLOC_CONF", "narenas:2")
    gc.set_threshold(_COLLECT)


def _run(words: list[str]) -> int:
    """Parse what was typed and do it. Raises UsageError."""
    named = command_of(words[0]) if words and words[0] in NAMES[1:] else None
    if named is None and words:
        _refuse_misspelt(words[0])
    parser = parser_of(named or command_of(NAMES[0]))
    arguments, unknown = parser.parse_known_args(words[1:] if named else words)
    if unknown:
        from ..analysis.core.text import display, nearest

        word = unknown[0].partition("=")[0]
        options = [option for action in parser._actions for option in action.option_strings]
        hint = nearest(word, options) if word.startswith("-") else f"{parser.prog} --help says what it takes."
        raise UsageError(f"no argument {display(word)}", hint)
    run: Callable[[argparse.Namespace], int] = (named or command_of(NAMES[0])).run
    return run(arguments)


def parser_of(command: Command) -> argparse.ArgumentParser:
    """The parser of a command; that of the first one is what ``warplens`` alone takes."""
    alone = command.name == NAMES[0]
    parser = _Parser(
        prog="warplens" if alone else f"warplens {command.name}", description=command.help, allow_abbrev=False,
        epilog=_overview() if alone else None, formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if alone:
        parser.add_argument("--version", action="version", version=f"warplens {__version__}")
    command.arguments(parser)
    return parser


def _refuse_misspelt(word: str) -> None:
    """Raise UsageError where the first word is no file but almost a command."""
    if word.startswith("-") or os.path.lexists(word):
        return
    from difflib import get_close_matches

    if near := get_close_matches(word, NAMES[1:], 2, 0.7):
        raise UsageError(f"no command and no file {word}", f"Nearest: {', '.join(near)}.")


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with what was typed, and what it is nearest to."""

    def error(self, message: str) -> NoReturn:
        from ..analysis.core.text import display, nearest

        hint = f"{self.prog} --help says what it takes."
        if wrong := re.fullmatch(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", message):
            message = f"{wrong[1]}: no {wrong[2]}"
            hint = nearest(wrong[2], re.findall(r"[\w-]+", wrong[3]))
        raise UsageError(display(message), hint)


def _guarded(run: Callable[[], int], as_json: bool) -> int:
    """Run a command; every error a user can cause becomes one sentence on stderr, or a JSON object, and its status."""
    from ..loaders.errors import Unreadable

    def say(message: str, status: int, hint: str = "") -> int:
        return _say(message, status, hint, as_json)

    try:
        status = run()
        sys.stdout.flush()
        return status
    except Unreadable as error:
        return say(f"{error.path}: {error.reason}.", UNREADABLE, error.advice)
    except UsageError as error:
        return say(error.message, USAGE, error.hint)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except KeyboardInterrupt:
        return say("stopped", INTERRUPTED)
    except OSError as error:
        return say(f"{error.filename or 'output'}: {error.strerror or error}.", USAGE)
    except MemoryError:
        return say("Out of memory.", UNREADABLE)
    except BaseException as error:  # a mistake of ours, or what a damaged input led to that nobody thought of
        if isinstance(error, SystemExit) or os.environ.get("WARPLENS_DEBUG") or not (
                isinstance(error, Exception) or _is_panic(error)):
            raise
        said = (str(error).splitlines() or [""])[0][:160]
        what = f"{type(error).__name__}: {said}" if said else type(error).__name__
        return say(f"This recording cannot be analysed ({what}).", UNREADABLE,
                   "WARPLENS_DEBUG=1 shows where it stopped.")


def _is_panic(error: BaseException) -> bool:
    """Whether polars gave up, which is no Exception; where it was not imported it was not polars."""
    known = sys.modules.get("polars.exceptions")
    return known is not None and isinstance(error, known.PanicException)


_KINDS = {USAGE: "usage", UNREADABLE: "unreadable", INTERRUPTED: "interrupted"}


def _say(message: str, status: int, hint: str, as_json: bool) -> int:
    from ..analysis.core.text import display

    message, hint = display(message), display(hint)
    if as_json:
        import json

        said = json.dumps({"error": {"kind": _KINDS[status], "message": message, "hint": hint}})
    else:
        said = f"warplens: {message.rstrip('.')}. {hint}" if hint else f"warplens: {message}"
    print(said, file=sys.stderr)
    return status


def _overview() -> str:
    commands = map(command_of, NAMES[1:])
    return "commands:\n" + "\n".join(f"  {one.name:<9} {one.help.splitlines()[0]}" for one in commands)
