"""The command line: from what was typed to one command, and from what it met to an exit status.

A command is a file beside this one that defines ``COMMAND``, and an entry of ``NAMES``; only the one that was typed is
imported. Results go to stdout, diagnostics and progress to stderr. Exit status: 0 fine, 1 a gate failed, 2 the command
was wrong, 3 the input cannot be read.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NoReturn

from .. import __version__
from .arguments import FINE, UNREADABLE, USAGE, Command, Wrong

NAMES = (
    "open", "report", "diff", "sql", "convert", "slice", "reduce", "formats", "views", "cache", "demo", "doctor",
)
"""Every command, in the order of the help. The first is what is meant where none is named."""
_COLLECT = 100_000
"""New objects between two looks for dead ones. What is imported stays, and looking through it is a tenth of a start."""


def command_of(name: str) -> Command:
    """The command of that name; imports its module."""
    command: Command = import_module(f".{name}", __package__).COMMAND
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    # Its threads spin for a while after they start, beside the ones that read; nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # polars' allocator keeps freed memory in each of four arenas a core: with two the same question takes 50 MB less.
    os.environ.setdefault("_RJEM_MALLOC_CONF", "narenas:2")
    gc.set_threshold(_COLLECT)
    words = list(sys.argv[1:] if argv is None else argv)
    named = command_of(words[0]) if words and words[0] in NAMES[1:] else None
    command = named or command_of(NAMES[0])
    parser = _Parser(
        prog=f"warplens {named.name}" if named else "warplens", description=command.help, allow_abbrev=False,
        epilog=None if named else _overview(), formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if named is None:
        parser.add_argument("--version", action="version", version=f"warplens {__version__}")
    command.arguments(parser)
    arguments = parser.parse_args(words[1:] if named else words)
    return _guarded(command.run, arguments)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with what was typed in display text: a name of a file may stand among the words."""

    def error(self, message: str) -> NoReturn:
        from ..analysis.core.text import display

        super().error(display(message))


def _guarded(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a command; every error a user can cause becomes one sentence on stderr and its exit status."""
    from ..loaders.errors import Unreadable

    try:
        status = run(arguments)
        sys.stdout.flush()
        return status
    except Unreadable as error:
        return _say(str(error), UNREADABLE)
    except Wrong as error:
        return _say(str(error), USAGE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except KeyboardInterrupt:
        return _say("stopped", 130)
    except OSError as error:
        return _say(f"{error.filename or 'output'}: {error.strerror or error}.", USAGE)
    except MemoryError:
        return _say("Out of memory.", UNREADABLE)
    except BaseException as error:  # a mistake of ours, or what a damaged input led to that nobody thought of
        if os.environ.get("WARPLENS_DEBUG") or not (isinstance(error, Exception) or _is_panic(error)):
            raise
        said = (str(error).splitlines() or [""])[0][:160]
        what = f"{type(error).__name__}: {said}" if said else type(error).__name__
        advice = "WARPLENS_DEBUG=1 shows where it stopped."
        return _say(f"This recording cannot be analysed ({what}). {advice}", UNREADABLE)


def _is_panic(error: BaseException) -> bool:
    """Whether polars gave up, which is no Exception; where it was not imported it was not polars."""
    known = sys.modules.get("polars.exceptions")
    return known is not None and isinstance(error, known.PanicException)


def _say(message: str, status: int) -> int:
    from ..analysis.core.text import display

    print(f"warplens: {display(message)}", file=sys.stderr)
    return status


def _overview() -> str:
    commands = map(command_of, NAMES[1:])
    return "commands:\n" + "\n".join(f"  {one.name:<9} {one.help.splitlines()[0]}" for one in commands)
