"""The command ``completions``: shell completions for ``warplens``, from the same parsers as the help."""

from __future__ import annotations

import argparse

from .arguments import FINE, Command

SHELLS = ("bash", "zsh", "fish")
_FILES = ("runs", "run", "paths", "output", "capture", "baseline", "candidate", "store", "list", "watch", "socket")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="as in: warplens completions bash > "
                        "~/.local/share/bash-completion/completions/warplens")


def _completions(arguments: argparse.Namespace) -> int:
    import shtab

    result = shtab.complete(whole_parser(), arguments.shell)
    # a word that is not a command is a run: bash then completes file names
    print(result.replace("complete -o bashdefault", "complete -o bashdefault -o default"))
    return FINE


def whole_parser() -> argparse.ArgumentParser:
    """One parser with all commands as subparsers and file completion for arguments that are paths."""
    import shtab

    from .main import NAMES, command_of

    first = argparse.ArgumentParser(add_help=False)
    command_of(NAMES[0]).arguments(first)
    whole = argparse.ArgumentParser(prog="warplens")
    for action in first._actions:
        if action.option_strings:  # a positional RUN would come before the commands
            whole._add_action(action)
    below = whole.add_subparsers(metavar="COMMAND")
    for name in NAMES[1:]:
        command = command_of(name)
        command.arguments(below.add_parser(name, help=command.help, description=command.help))
    for parser in (whole, *below.choices.values()):
        for action in parser._actions:
            if action.dest in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    return whole


COMMAND = Command("completions", "Print the completion script for bash, zsh or fish.", _arguments, _completions)
