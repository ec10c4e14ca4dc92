"""The command ``formats``: readable trace formats, and the tables each format fills."""

from __future__ import annotations

import argparse

from .arguments import FINE, Command, no_arguments


def _formats(arguments: argparse.Namespace) -> int:
    from ..loaders.registry import loaders

    for loader in loaders():
        print(f"{loader.name:<19} {loader.title}  ({', '.join(loader.suffixes)})")
        if loader.fills:
            print(f"{'':<19} fills: {' '.join(loader.fills)}")
    return FINE


COMMAND = Command("formats", "List the formats that can be read, and what each fills.", no_arguments, _formats)
