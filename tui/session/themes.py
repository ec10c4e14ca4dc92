"""Themes: ``themes/*.toml`` → a Textual theme and the named styles of the list.

A theme is one TOML file: ``[theme]`` holds Textual's colours, ``[list]`` one Rich style for each field of ``Look``.
Other packages register the path of their file under the entry point group ``warplens.themes``. Invariant: A and B,
more and less, are never told apart by red and green alone, and whatever a colour says is also said by a sign or word.
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
    """A theme file is invalid; the message names the file and the key."""


class Look(Struct, frozen=True):
    """Styles by role: list elements, severity (``good warn bad``), kernel families, host activity in idle time.

    Each one is combined with ``base``. Nothing else on a screen has a colour of its own.
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
        """The style of a role."""
        style: Style = getattr(self, name)
        return style


def content_style(role: str, on: str = "") -> str:
    """The style of a role for a ``Content``, as theme variables; ``on`` is the role whose colour is the background."""
    return f"$w-{role.replace('_', '-')}" + (f" $w-on-{on.replace('_', '-')}" if on else "")


def _variable(style: Style) -> str:
    """Attributes and foreground colour of a style in Textual's syntax; the background is the widget's."""
    return " ".join([name for name in ("bold", "dim", "underline", "reverse") if getattr(style, name)] + _colour(style))


def _colour(style: Style) -> list[str]:
    if style.color is None or style.color.is_default:
        return []
    return [style.color.name if style.color.triplet else f"ansi_{style.color.name}"]


@cache
def names() -> tuple[str, ...]:
    """All theme names, the default first."""
    return tuple(sorted(_files(), key=lambda name: (name != DEFAULT, name)))


@cache
def _files() -> dict[str, Path]:
    """Theme name → file; a built-in name cannot be overridden."""
    ours = {path.stem: path for path in FOLDER.glob("*.toml")}
    return {name: Path(path) for name, path in extensions("themes").items()} | ours


def for_colours(name: str, system: str | None) -> str:
    """The theme to draw when ``name`` is chosen. On a 16-colour terminal it is ``terminal``, unless ``name`` uses ANSI
    colours itself: the nearest of 16 for most colours of other themes is a grey. ``system`` is Rich's colour system."""
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
    """The Textual theme with that name. Raises BadTheme."""
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
    """The list styles of a theme as written in its file. Raises BadTheme."""
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
    """The list styles of a theme; an unknown name gets the default theme's. Raises BadTheme."""
    styles = _styles(name if name in names() else DEFAULT)
    return Look(**{role: styles["base"] + style for role, style in styles.items()})
