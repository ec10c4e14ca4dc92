"""The README says what the code says: its tables are rendered from the registries and the schema.

``WARPLENS_UPDATE=1 pytest tests/test_readme.py`` writes them anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from warplens.analysis.views import VIEWS
from warplens.cli import main
from warplens.loaders.registry import loaders
from warplens.loaders.schema import TABLES
from warplens.tui.app.keys import KEYS

SIGNS = {
    "slash": "/", "exclamation_mark": "!", "less_than_sign": "<", "greater_than_sign": ">", "left_square_bracket": "[",
    "right_square_bracket": "]", "colon": ":", "question_mark": "?",
}
README = Path(__file__).resolve().parent.parent / "README.md"


def formats() -> str:
    lines = ["| format | what | usual names |", "|---|---|---|"]
    for one in loaders():
        lines.append(f"| `{one.name}` | {one.title} | {' '.join(f'`{suffix}`' for suffix in one.suffixes)} |")
    return "\n".join(lines)


def views() -> str:
    lines = ["| key | view | question |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {entry.key} | `{entry.name}` | {entry.question} |" for entry in VIEWS)])


def tables() -> str:
    made = []
    for name, fields in TABLES.items():
        made += [f"<details><summary><code>{name}</code></summary>", ""]
        made += ["| column | type | unit | meaning |", "|---|---|---|---|"]
        made += [f"| `{one.name}` | {one.dtype} | {one.unit} | {one.meaning} |" for one in fields]
        made += ["", "</details>", ""]
    return "\n".join(made).rstrip()


def keys() -> str:
    lines = ["| name | key | what it does |", "|---|---|---|"]
    for key in KEYS:
        shown = " ".join(f"`{SIGNS.get(one, one)}`" for one in key.keys.split(","))
        lines.append(f"| {key.name} | {shown} | {key.help} |")
    return "\n".join(lines)


@pytest.mark.parametrize("section", [formats, views, tables, keys], ids=lambda section: section.__name__)
def test_the_readme_is_up_to_date(section: Callable[[], str]) -> None:
    name, text = section.__name__, README.read_text()
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    if os.environ.get("WARPLENS_UPDATE"):
        README.write_text(re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{section()}\n{end}", text, flags=re.DOTALL))
        return
    assert f"{begin}\n{section()}\n{end}" in text, "run WARPLENS_UPDATE=1 pytest tests/test_readme.py"


def test_every_command_is_in_the_readme() -> None:
    text = README.read_text()
    missing = [one.name for one in main.COMMANDS[1:] if not re.search(rf"\b{one.name}\b", text)]
    assert not missing
