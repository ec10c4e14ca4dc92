"""The command ``formats``: what can be read."""

from __future__ import annotations

import argparse

from .arguments import FINE, Command, no_arguments


def _formats(arguments: argparse.Namespace) -> int:
    from ..loaders.registry import loaders

    for loader in loaders():
        print(f"{loader.name:<18} {loader.title}  ({', '.join(loader.suffixes)})")
    return FINE


FORMATS = Command("formats", "List the formats that can be read.", no_arguments, _formats)
