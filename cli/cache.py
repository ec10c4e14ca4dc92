"""The command ``cache``: list the cached traces and their size, clear the cache, or print its path."""

from __future__ import annotations

import argparse

from .arguments import FINE, Command
from .output import print_path


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["list", "clear", "path"], nargs="?", default="list")


def _cache(arguments: argparse.Namespace) -> int:
    from ..analysis.core.text import display
    from ..analysis.core.units import size
    from ..loaders.ingest import cache

    if arguments.action == "path":
        print_path(cache.path())
    elif arguments.action == "clear":
        gone, freed, left = cache.clear()
        print(f"removed {gone} entries, {size(freed)}" + (f"; {left} are in use" if left else ""))
    else:
        entries = cache.entries()
        for entry in entries:
            print(f"{size(entry.bytes):>10}  {display(entry.source)}{'' if entry.current else '  (changed since)'}")
        print(f"{size(sum(entry.bytes for entry in entries))} in {len(entries)} entries, {display(str(cache.path()))}")
    return FINE


COMMAND = Command("cache", "List, clear or locate the cache.", _arguments, _cache)
