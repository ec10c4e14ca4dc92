"""Settings: ``~/.config/warplens/config.toml``, validated, with errors that name the file and the line.

Every setting is optional; an unknown or wrong one is an error, because a setting that is silently ignored costs the
user more than an error.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from ...analysis.contract.options import Thresholds
from ...analysis.views import VIEWS
from .keys import KEYS, NAMES, Place, unknown_key


class BadSettings(Exception):
    """The settings are invalid; the message names the file, the line and the allowed values."""


class Settings(Struct, frozen=True):
    """The user's theme, first view, unit of durations, thresholds of ``bound``, keys by their names in ``keys.KEYS``,
    and, only validated here, device peaks (``analysis.work.peaks`` reads the file itself) and names that communicate
    (``loaders.collective_names`` does)."""

    theme: str = "dark"
    view: str = ""
    units: str = "auto"
    ascii: bool = False
    thresholds: Thresholds = field(default_factory=Thresholds)
    keys: dict[str, str] = field(default_factory=dict)
    peaks: dict[str, dict[str, float]] = field(default_factory=dict)
    communication: dict[str, list[str]] = field(default_factory=dict)

    @property
    def keymap(self) -> dict[str, str]:
        """Binding id → keys, for Textual."""
        return {key.id: self.keys[key.name] for key in KEYS if key.name in self.keys}


def config_path() -> Path:
    """Path of the settings file."""
    from platformdirs import user_config_path

    return user_config_path("warplens") / "config.toml"


def load(path: Path | None = None, *, theme: str | None = None, ascii: bool = False) -> Settings:
    """The settings of the file, or the defaults if there is none, overridden by the command line.

    Raises BadSettings.
    """
    settings = _file(path or config_path())
    try:
        return replace(settings, theme=_theme(theme) if theme else settings.theme, ascii=ascii or settings.ascii)
    except _Wrong as wrong:
        raise BadSettings(f"--theme: {wrong}") from None


def _file(path: Path) -> Settings:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path}: cannot be read: {error}") from error
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise BadSettings(f"{path}:{line[1] if line else 1}: {error}") from error
    return _checked(given, text, path)


def _checked(given: dict[str, Any], text: str, path: Path) -> Settings:
    result: dict[str, Any] = {}
    for name, value in given.items():
        check = _CHECKS.get(name)
        if check is None:
            raise _error(path, text, name, "", f"{name} is not a setting; there are {', '.join(sorted(_CHECKS))}")
        try:
            result[name] = check(value)
        except _Wrong as wrong:
            raise _error(path, text, wrong.key or name, name if wrong.key else "", str(wrong)) from None
    return Settings(**result)


class _Wrong(Exception):
    """An invalid value; ``key`` is the key inside its table."""

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


def _error(path: Path, text: str, key: str, table: str, message: str) -> BadSettings:
    return BadSettings(f"{path}:{_line_of(text, key, table)}: {message}")


def _line_of(text: str, key: str, table: str) -> int:
    """The line that sets ``key``, inside ``table`` if given; else the line of the table's header."""
    inside, seen_table = not table, 1
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\s*([\w.\"-]+)\s*\]", line)
        if header:
            inside = header[1].strip('"') == table
            if header[1] in (table, key):
                seen_table = number
        elif inside and re.match(rf"\s*\"?{re.escape(key)}\"?\s*=", line):
            return number
    return seen_table


def _one_of(*allowed: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in allowed:
            raise _Wrong(f"{value!r} is not one of {', '.join(allowed)}")
        return str(value)

    return check


def _theme(value: Any) -> str:
    from .themes import names

    return _one_of(*names())(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong(f"{value!r} is neither true nor false")
    return value


def _thresholds(value: Any) -> Thresholds:
    if not isinstance(value, dict):
        raise _Wrong("thresholds is a table: [thresholds]")
    types = {name: type(value) for name, value in asdict(Thresholds()).items()}
    for name, number in value.items():
        if name not in types:
            raise _Wrong(f"{name} is not a threshold; there are {', '.join(types)}", name)
        if isinstance(number, bool) or not isinstance(number, int | float) or number < 0:
            raise _Wrong(f"{name} must be a number from 0, not {number!r}", name)
        if types[name] is float and number > 1:
            raise _Wrong(f"{name} must be a fraction from 0 to 1, not {number!r}", name)
        if types[name] is int and not isinstance(number, int):
            raise _Wrong(f"{name} must be a whole number, not {number!r}", name)
    return Thresholds(**value)


def _keys(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _Wrong("keys is a table: [keys]")
    result: dict[str, str] = {}
    taken: dict[str, str] = {}
    for name, keys in value.items():
        if name not in NAMES:
            raise _Wrong(f"{name} is not the name of a key; the names are {', '.join(sorted(NAMES))}", name)
        given = [keys] if isinstance(keys, str) else keys
        if not isinstance(given, list) or not given or not all(isinstance(key, str) for key in given):
            raise _Wrong(f"{name} takes a key or a list of keys, as \"ctrl+e\" or [\"e\", \"f5\"]", name)
        for key in given:
            if unknown_key(key):
                raise _Wrong(f"{key!r} is not a key; write a letter or sign, or up, f5, ctrl+e, pagedown", name)
            if opened := next((entry.name for entry in VIEWS if entry.key == key), None):
                raise _Wrong(f"{key!r} opens the view {opened}; give {name} another key", name)
            if key in taken:
                raise _Wrong(f"{key!r} is already given to {taken[key]}", name)
            taken[key] = name
        result[name] = ",".join(_textual(key) for key in given)
    places = {key.name: key.place for key in KEYS}
    for key in (key for key in KEYS if key.name not in result):
        for default in key.keys.split(","):
            owner = next((name for name, keys in result.items()
                          if default in keys.split(",") and not _never_together(places[name], key.place)), None)
            if owner is not None:
                raise _Wrong(f"that key belongs to {key.name}; give {key.name} another key too", owner)
    return result


def _peaks(value: Any) -> dict[str, dict[str, float]]:
    from ...analysis.work.peaks import BadPeaks, checked

    try:
        return checked(value)
    except BadPeaks as error:
        raise _Wrong(str(error)) from None


def _communication(value: Any) -> dict[str, list[str]]:
    from ...loaders.collective_names import BadPattern, checked

    try:
        checked(value)
    except BadPattern as error:
        raise _Wrong(str(error)) from None
    return dict(value)


def _never_together(one: Place, other: Place) -> bool:
    """Whether two places never take keys at the same time: the list and the timeline may bind the same key, and an open
    prompt takes all of them."""
    return {one, other} == {"list", "timeline"} or (one == "prompt") != (other == "prompt")


def _textual(key: str) -> str:
    from textual.keys import KEY_NAME_REPLACEMENTS

    if len(key) != 1 or key.isalnum():
        return key
    name = unicodedata.name(key, key).lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "theme": _theme,
    "view": lambda value: _one_of(*(entry.name for entry in VIEWS))(value),
    "units": _one_of("auto", "ns", "us", "ms"),
    "ascii": _flag,
    "thresholds": _thresholds,
    "keys": _keys,
    "peaks": _peaks,
    "communication": _communication,
}
