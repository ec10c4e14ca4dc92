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
    """Styles by role: the list's own, judgement (``good warn bad``), kernel families, what the host did in idle time.

    Every one lies on ``base``. Nothing else on a screen has a colour of its own.
    """

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
    faint: Style
    frame: Style
    focus: Style
    good: Style
    warn: Style
    bad: Style
    bar: Style
    spark: Style
    a: Style
    b: Style
    gemm: Style
    conv: Style
    attention: Style
    norm: Style
    reduce: Style
    elementwise: Style
    move: Style
    collective: Style
    copy: Style
    other: Style
    python: Style
    op: Style
    launch: Style
    sync: Style
    device: Style

    def role(self, name: str) -> Style:
        """The style of that role."""
        style: Style = getattr(self, name)
        return style


def content_style(role: str, on: str = "") -> str:
    """What a role is called in the style of a ``Content``: a variable of the theme; before the colour of another one
    where that lies behind it."""
    return f"$w-{role.replace('_', '-')}" + (f" $w-on-{on.replace('_', '-')}" if on else "")


def _variable(style: Style) -> str:
    """The attributes and the colour of a style as Textual writes them; backgrounds are left to the widget."""
    return " ".join([name for name in ("bold", "dim", "underline", "reverse") if getattr(style, name)] + _colour(style))


def _colour(style: Style) -> list[str]:
    if style.color is None or style.color.is_default:
        return []
    return [style.color.name if style.color.triplet else f"ansi_{style.color.name}"]


@cache
def names() -> tuple[str, ...]:
    """The themes there are, the default one first."""
    return tuple(sorted(_files(), key=lambda name: (name != DEFAULT, name)))


@cache
def _files() -> dict[str, Path]:
    """The file of each theme; a name of ours stays ours."""
    ours = {path.stem: path for path in FOLDER.glob("*.toml")}
    return {name: Path(path) for name, path in extensions("themes").items()} | ours


def for_colours(name: str, system: str | None) -> str:
    """The theme that is drawn where that is chosen: of a terminal with 16 colours its own, in which families differ;
    the nearest of them to most colours of other themes is a grey. ``system`` is Rich's name for what there is."""
    return "terminal" if system == "standard" and not _read(name)["theme"].get("ansi") else name


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
        given = _read(name)["theme"]
        styles = _styles(name)
        variables = {content_style(role)[1:]: _variable(style) for role, style in styles.items()}
        variables |= {f"w-on-{role.replace('_', '-')}": " ".join(["on", *under]) if (under := _colour(style)) else ""
                      for role, style in styles.items()}
        return Theme(name=name, **given | {"variables": given.get("variables", {}) | variables})
    except (KeyError, TypeError) as error:
        raise BadTheme(f"{name}.toml: [theme] is missing or has an unknown key: {error}") from error


@cache
def _styles(name: str) -> dict[str, Style]:
    """The list's styles of that theme as they are written. Raises BadTheme."""
    given = _read(name).get("list", {})
    wanted = Look.__struct_fields__
    if odd := set(given) ^ set(wanted):
        raise BadTheme(f"{name}.toml: [list] lacks or should not have {', '.join(sorted(odd))}")
    try:
        return {role: Style.parse(given[role]) for role in wanted}
    except StyleSyntaxError as error:
        raise BadTheme(f"{name}.toml: {error}") from error


@cache
def look(name: str) -> Look:
    """The list's styles of that theme; the default theme's for a name that is none of ours. Raises BadTheme."""
    styles = _styles(name if name in names() else DEFAULT)
    return Look(**{role: styles["base"] + style for role, style in styles.items()})
