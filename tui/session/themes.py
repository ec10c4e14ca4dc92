"""Themes: data in ``themes/*.toml`` → a Textual theme and the named styles of the list.

A theme is a TOML file and nothing else: ``[theme]`` holds Textual's colours, ``[list]`` one Rich style for each field
of ``Look``. Another package registers the path of its file under ``warplens.themes``. What must stay true: A and B,
more and less, are never told apart by red and green alone, and everything a colour says is also said by a sign or word.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from rich.errors import StyleSyntaxError
from rich.style import Style
from textual.theme import Theme

from ... import extensions

FOLDER = Path(__file__).resolve().parents[2] / "themes"
DEFAULT = "dark"


class BadTheme(ValueError):
    """A theme file says something a theme cannot; the message names the file and the key."""


class Look(Struct, frozen=True):
    """The styles of the list. All are complete where they set a background, else they lie on ``base``."""

    base: Style
    header: Style
    header_sorted: Style
    cursor: Style
    cursor_blurred: Style
    gutter: Style
    mark: Style
    match: Style
    top: Style
    dim: Style
    missing: Style
    spark: Style
    bar_tensor: Style
    bar_dram: Style
    bar: Style
    a: Style
    b: Style
    up: Style
    down: Style

    @property
    def slices(self) -> dict[str, Style]:
        """The styles of slices of the timeline by class; each class also has signs of its own."""
        return {"kernel": self.bar_tensor, "collective": self.b, "copy": self.bar_dram, "wait": self.dim,
                "host": self.bar}


@cache
def names() -> tuple[str, ...]:
    """The themes there are, the default one first."""
    return tuple(sorted(_files(), key=lambda name: (name != DEFAULT, name)))


@cache
def _files() -> dict[str, Path]:
    """The file of each theme; a name of ours stays ours."""
    ours = {path.stem: path for path in FOLDER.glob("*.toml")}
    return {name: Path(path) for name, path in extensions("themes").items()} | ours


@cache
def _read(name: str) -> dict[str, Any]:
    path = _files().get(name, FOLDER / f"{name}.toml")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BadTheme(f"{path.name}: {error}") from error


@cache
def theme(name: str) -> Theme:
    """The Textual theme of that name. Raises BadTheme."""
    try:
        return Theme(name=name, **_read(name)["theme"])
    except (KeyError, TypeError) as error:
        raise BadTheme(f"{name}.toml: [theme] is missing or has an unknown key: {error}") from error


@cache
def look(name: str) -> Look:
    """The list's styles of that theme; the default theme's for a name that is none of ours. Raises BadTheme."""
    given = _read(name if name in names() else DEFAULT).get("list", {})
    wanted = Look.__struct_fields__
    if odd := set(given) ^ set(wanted):
        raise BadTheme(f"{name}.toml: [list] lacks or should not have {', '.join(sorted(odd))}")
    try:
        styles = {key: Style.parse(given[key]) for key in wanted}
    except StyleSyntaxError as error:
        raise BadTheme(f"{name}.toml: {error}") from error
    base = styles["base"]
    return Look(**{key: base + style for key, style in styles.items()})
