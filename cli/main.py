"""The command line: dispatches to one command and maps errors to exit statuses.

A command is a file in this folder that defines ``COMMAND``, plus an entry in ``NAMES``; only the requested one is
imported. Results go to stdout, diagnostics and progress to stderr. Exit status: 0 success, 1 a gate failed, 2 usage
error, 3 the input cannot be read.
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
from ..loaders import files
from .arguments import FINE, GATE_FAILED, UNREADABLE, USAGE, Command, Failure

NAMES = (
    "open", "report", "diff", "sql", "convert", "slice", "reduce", "history", "record", "formats", "views", "cache",
    "demo", "doctor", "completions", "guide", "help", "man",
)
"""Every command, in the order of the help. The first is the default."""
INTERRUPTED = 130
_COLLECT = 100_000
"""New objects between two garbage collections. Imported modules stay, and scanning them takes a tenth of a start."""


def command_of(name: str) -> Command:
    """Import and return the command of that name."""
    command: Command = import_module(f".{name}", __package__).COMMAND
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    set_up()
    words = list(sys.argv[1:] if argv is None else argv)
    own = words[: words.index("--")] if "--" in words else words
    return _guarded(lambda: _run(words), "--format=json" in own or ("--format", "json") in pairwise(own))


def set_up() -> None:
    """Apply process-wide settings; those of a library only work before it is imported or starts threads."""
    from ..loaders.native.allocator import one_arena

    one_arena()
    # OpenBLAS threads spin after they start and compete with the reading threads; nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # polars' allocator keeps freed memory for ten seconds, in four arenas per core: kernels of 500 MB takes 60 MB more.
    os.environ.setdefault("_RJEM_MALLOC_CONF", "narenas:1,dirty_decay_ms:0")
    _check_threads()
    gc.set_threshold(_COLLECT)


def _check_threads() -> None:
    """Leave only a number of threads that polars can start: 0 would end the process, a huge one stops the machine."""
    wanted = os.environ.get("POLARS_MAX_THREADS")
    if wanted is None:
        return
    most = 4 * (os.cpu_count() or 1)
    if not wanted.isdecimal() or not int(wanted):
        del os.environ["POLARS_MAX_THREADS"]  # as if not set
    elif int(wanted) > most:
        os.environ["POLARS_MAX_THREADS"] = str(most)


def _run(words: list[str]) -> int:
    """Parse the command line and run the command. Raises UsageError."""
    named = command_of(words[0]) if words and words[0] in NAMES[1:] else None
    if named is None and words:
        _refuse_misspelt(words[0])
    parser = parser_of(named or command_of(NAMES[0]))
    own, wrapped = (words[1:] if named else words), None
    if named is not None and named.wraps and "--" in own:
        at = own.index("--")
        own, wrapped = own[:at], own[at + 1 :]
    arguments, unknown = parser.parse_known_args(own, argparse.Namespace(command=wrapped))
    if unknown:
        from ..analysis.core.text import display, nearest

        word = unknown[0].partition("=")[0]
        options = [option for action in parser._actions for option in action.option_strings]
        hint = nearest(word, options) if word.startswith("-") else f"{parser.prog} --help says what it takes."
        raise UsageError(f"no argument {display(word)}", hint)
    _refuse_input_as_output(arguments)
    run: Callable[[argparse.Namespace], int] = (named or command_of(NAMES[0])).run
    return run(arguments)


def _refuse_input_as_output(arguments: argparse.Namespace) -> None:
    """Raise UsageError if the output is one of the inputs, before anything is read."""
    output = getattr(arguments, "output", None)
    if not output or output == "-":
        return
    inputs: list[str] = []
    for name in ("runs", "paths", "baseline", "candidate", "capture", "list"):
        value = getattr(arguments, name, None)
        inputs += [value] if isinstance(value, str) else [one for one in value or () if isinstance(one, str)]
    if files.is_input(output, inputs):
        from ..analysis.core.text import display

        raise UsageError(f"{display(output)} is the input; name another output")


def parser_of(command: Command) -> argparse.ArgumentParser:
    """The parser of a command; that of the first command also serves ``warplens`` without a command name."""
    alone = command.name == NAMES[0]
    parser = _Parser(
        prog="warplens" if alone else f"warplens {command.name}", description=command.help, allow_abbrev=False,
        epilog=_overview() if alone else None, formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if alone:
        parser.add_argument("-V", "--version", action="version", version=f"warplens {__version__}")
    command.arguments(parser)
    return parser


def _refuse_misspelt(word: str) -> None:
    """Raise UsageError if the first word is not a file but resembles a command."""
    if word.startswith("-") or os.path.lexists(word):
        return
    from difflib import get_close_matches

    if near := get_close_matches(word, NAMES[1:], 2, 0.7):
        raise UsageError(f"no command and no file {word}", f"Nearest: {', '.join(near)}.")


class _Parser(argparse.ArgumentParser):
    """Reports a usage error in one line, with the nearest valid choice."""

    def error(self, message: str) -> NoReturn:
        from ..analysis.core.text import display, nearest

        hint = f"{self.prog} --help says what it takes."
        if wrong := re.fullmatch(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", message):
            message = f"{wrong[1]}: no {wrong[2]}"
            hint = nearest(wrong[2], re.findall(r"[\w-]+", wrong[3]))
        raise UsageError(display(message), hint)


def _guarded(run: Callable[[], int], as_json: bool) -> int:
    """Run a command; errors a user can cause become one sentence (or JSON object) on stderr and an exit status."""
    from ..loaders.errors import Unreadable

    def fail(message: str, status: int, hint: str = "") -> int:
        return _say(message, status, hint, as_json)

    try:
        status = run()
        sys.stdout.flush()
        return status
    except Unreadable as error:
        return fail(f"{error.path}: {error.reason}.", UNREADABLE, error.advice)
    except Failure as error:
        return fail(error.message, error.status, error.hint)
    except UsageError as error:
        return fail(error.message, USAGE, error.hint)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except KeyboardInterrupt:
        return fail("stopped", INTERRUPTED)
    except OSError as error:
        return fail(f"{error.filename or 'output'}: {error.strerror or error}.", USAGE)
    except MemoryError:
        return fail("Out of memory.", UNREADABLE)
    except BaseException as error:  # a bug, or an unforeseen effect of a damaged input
        if isinstance(error, SystemExit) or os.environ.get("WARPLENS_DEBUG") or not (
                isinstance(error, Exception) or _is_panic(error)):
            raise
        reason = (str(error).splitlines() or [""])[0][:160]
        what = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
        return fail(f"This recording cannot be analysed ({what}).", UNREADABLE,
                   "WARPLENS_DEBUG=1 shows where it stopped.")


def _is_panic(error: BaseException) -> bool:
    """Whether it is a polars panic, which is not an ``Exception``; impossible if polars was not imported."""
    exceptions = sys.modules.get("polars.exceptions")
    return exceptions is not None and isinstance(error, exceptions.PanicException)


_KINDS = {GATE_FAILED: "failed", USAGE: "usage", UNREADABLE: "unreadable", INTERRUPTED: "interrupted"}


def _say(message: str, status: int, hint: str, as_json: bool) -> int:
    from ..analysis.core.text import display

    message, hint = display(message), display(hint)
    if as_json:
        import json

        line = json.dumps({"error": {"kind": _KINDS[status], "message": message, "hint": hint}})
    else:
        line = f"warplens: {message.rstrip('.')}. {hint}" if hint else f"warplens: {message}"
    print(line, file=sys.stderr)
    return status


def _overview() -> str:
    commands = map(command_of, NAMES[1:])
    return "commands:\n" + "\n".join(f"  {one.name:<9} {one.help.splitlines()[0]}" for one in commands)
