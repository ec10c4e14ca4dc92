"""The README and the pages of docs/ say what the code says: their tables are rendered from the registries.

``WARPLENS_UPDATE=1 pytest tests/test_readme.py`` writes them anew. What cannot be rendered is tried: the walk-through
is pressed key by key, the example settings are loaded, and nothing that a user can name may go undocumented.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from app_runs import press, said, screen_text, settled
from demo_app import DEMO, demo_app

from warplens.analysis.contract.column import Column
from warplens.analysis.contract.options import Thresholds
from warplens.analysis.findings.rules import RULES
from warplens.analysis.views import VIEWS
from warplens.cli import main
from warplens.loaders import unsupported
from warplens.loaders.registry import ours
from warplens.loaders.schema import TABLES
from warplens.tui.session import settings, themes
from warplens.tui.session.keys import KEYS, Key, spelled

ROOT = Path(__file__).resolve().parent.parent
ADVICE = "run WARPLENS_UPDATE=1 pytest tests/test_readme.py"


def table(header: str, rows: Iterable[Iterable[object]]) -> str:
    """A markdown table: ``header`` is its first line, without the bars at the ends."""
    shown = ["| " + " | ".join(str(cell).replace("|", r"\|") for cell in row) + " |" for row in rows]
    return "\n".join([f"| {header} |", "|" + "---|" * len(header.split("|")), *shown])


def code(*words: str) -> str:
    return " ".join(f"`{word}`" for word in words)


def formats() -> str:
    return table("format | what | usual names", ((code(one.name), one.title, code(*one.suffixes)) for one in ours()))


def commands() -> str:
    return table("command | what it does", ((code(one.name), one.help) for one in map(main.command_of, main.NAMES[1:])))


def keys() -> str:
    """Every key on one screen: four to a line, those of one place after those that hold everywhere."""
    places = {"the flame graph of ops": "flame", "the timeline": "timeline"}
    named = {place: [f"{spelled(one.keys):<9} {one.name.replace('_', ' ')}" for one in KEYS if one.place == place]
             for place in places.values()}
    everywhere = [f"{spelled(one.keys):<9} {one.name.replace('_', ' ')}" for one in KEYS
                  if one.place not in places.values()]
    numbers = " ".join(entry.key for entry in VIEWS if entry.key)
    lines = ["```", f"{numbers}   the view of that key", "", *_columns(everywhere)]
    for title, place in places.items():
        lines += ["", f"in {title}", *_columns(named[place])]
    return "\n".join([*lines, "```"])


def _columns(cells: list[str], across: int = 4) -> list[str]:
    height = -(-len(cells) // across)
    return ["".join(f"{cell:<30}" for cell in cells[row::height]).rstrip() for row in range(height)]


def named_keys() -> str:
    return table("name | key | what it does", ((one.name, code(*_spelled(one)), one.help) for one in KEYS))


def _spelled(key: Key) -> list[str]:
    return [spelled(one) for one in key.keys.split(",")]


def tables() -> str:
    made = []
    for name, fields in TABLES.items():
        rows = ((code(one.name), one.dtype, one.unit, one.meaning) for one in fields)
        made += [f"## `{name}`", "", table("column | type | unit | meaning", rows), ""]
    return "\n".join(made).rstrip()


def columns() -> str:
    made = []
    for entry in VIEWS:
        view = entry.load()
        made += [f"## `{entry.name}`", "", entry.question, ""]
        if view.free_columns:
            made += ["Its columns are those of the query.", ""]
            continue
        if view.one_run:
            made += [_columns_of(view.columns), ""]
        if view.two_runs and view.pair_columns:
            own = {column.name for column in view.columns}
            paired = {f"{name}_{side}" for name in own for side in ("a", "b", "delta")}
            extra = [column for column in view.pair_columns if column.name not in own | paired]
            sided = [column.name for column in view.pair_columns if column.name in paired]
            if extra:
                made += ["Of two runs also:" if sided else "Of two runs:", "", _columns_of(extra), ""]
            if sided:
                made += [f"Of two runs, columns of their own for A, for B and for the difference: {code(*sided)}.", ""]
    return "\n".join(made).rstrip()


def _columns_of(those: Iterable[Column]) -> str:
    return table("column | header | unit | meaning", ((code(c.name), c.header, c.unit, c.help) for c in those))


def rules() -> str:
    return table(
        "rule | severity | what it looks for | view to go to",
        ((rule.id, rule.severity, rule.looks_for, code(rule.view) if rule.view else "") for rule in RULES),
    )


def options() -> str:
    made = []
    for command in map(main.command_of, main.NAMES):
        parser = argparse.ArgumentParser(prog="warplens", add_help=False)
        command.arguments(parser)
        name = "warplens" if command.name == main.NAMES[0] else f"warplens {command.name}"
        made += [f"## `{name}`", "", command.help, ""]
        rows = [(code(_typed(one)), (one.help or "").replace("%%", "%")) for one in parser._actions]
        made += [table("argument | meaning", rows), ""] if rows else []
    return "\n".join(made).rstrip()


def man_page() -> str:
    """``warplens(1)``, of the same parsers."""
    def plain(text: str) -> str:
        text = text.replace("%%", "%").replace("\\", "\\e").replace("-", "\\-")
        return f"\\&{text}" if text[:1] in (".", "'") else text

    made = ['.TH WARPLENS 1 "" "warplens" "User commands"', ".SH NAME",
            "warplens \\- the terminal microscope for GPU runs", ".SH SYNOPSIS", ".B warplens", "[COMMAND] [RUN]...",
            ".SH COMMANDS"]
    for command in map(main.command_of, main.NAMES):
        parser = argparse.ArgumentParser(prog="warplens", add_help=False)
        command.arguments(parser)
        name = "warplens" if command.name == main.NAMES[0] else f"warplens {command.name}"
        made += [f".SS {plain(name)}", plain(command.help)]
        for action in parser._actions:
            made += [".TP", f".B {plain(_typed(action))}", plain(action.help or "")]
    made += [".SH EXIT STATUS", "0 fine, 1 a gate failed, 2 the command was wrong, 3 the input cannot be read.", ""]
    return "\n".join(made)


def test_the_man_page_is_up_to_date() -> None:
    page = ROOT / "docs" / "warplens.1"
    if os.environ.get("WARPLENS_UPDATE"):
        page.write_text(man_page(), encoding="utf-8")
    assert page.read_text(encoding="utf-8") == man_page(), ADVICE


def test_the_site_builds_without_network_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / ".ci" / "build_docs.py", tmp_path / "site"], check=True)
    pages = list((tmp_path / "site").rglob("*.html"))
    links = [(page, target) for page in pages for target in
             re.findall(r'(?:href|src)="(?!https?:)([^"#]+)', page.read_text(encoding="utf-8"))]
    assert len(pages) > 12 and len(links) > 200
    assert not [f"{page.name}: {target}" for page, target in links if not (page.parent / target).exists()]


def _typed(action: argparse.Action) -> str:
    value = action.metavar or (action.choices and "|".join(str(one) for one in action.choices)) or ""
    if not action.option_strings:
        return str(value or action.dest)
    return " ".join([", ".join(action.option_strings), *([str(value)] if action.nargs != 0 and value else [])])


def not_read() -> str:
    rows = {}
    for _, reason, advice in (*unsupported._MAGIC, *unsupported._SUFFIX, *unsupported._HEADERS):
        rows[reason] = advice
    return table("the file | what to do", rows.items())


def theme_names() -> str:
    return code(*themes.names())


def demo_lines() -> str:
    from warplens.analysis.contract.options import Options
    from warplens.analysis.query.report import report
    from warplens.loaders.ingest.opening import open_run

    pair = tuple(open_run(str(DEMO / f"{side}.json.gz"), use_cache=False)[0] for side in ("normal", "abnormal"))
    return "\n".join(["```", *report("diff", pair, Options()).summary, "```"])


SECTIONS: tuple[tuple[str, Callable[[], str]], ...] = (
    ("docs/commands.md", commands), ("docs/keys.md", keys), ("docs/columns.md", columns),
    ("docs/data-model.md", tables), ("docs/settings.md", named_keys),
    ("docs/settings.md", theme_names), ("docs/commands.md", options), ("docs/findings.md", rules),
    ("docs/formats.md", formats), ("docs/formats.md", not_read), ("docs/diff.md", demo_lines),
)


@pytest.mark.parametrize(("page", "section"), SECTIONS, ids=[f"{page}-{made.__name__}" for page, made in SECTIONS])
def test_a_page_is_up_to_date(page: str, section: Callable[[], str]) -> None:
    path = ROOT / page
    name, text = section.__name__, path.read_text(encoding="utf-8")
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    wanted = f"{begin}\n{section()}\n{end}"
    if os.environ.get("WARPLENS_UPDATE"):
        text = re.sub(f"{begin}.*?{end}", lambda _: wanted, text, flags=re.DOTALL)
        path.write_text(text, encoding="utf-8")
    assert wanted in text, ADVICE


def documented(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def headings(page: str) -> list[str]:
    return re.findall(r"^#+ (.*)$", documented(page), re.MULTILINE)


def test_every_view_has_its_part_of_the_page_of_screens_with_its_key_and_question() -> None:
    parts = [(f"{one.name} (`{one.key}`)" if one.key else one.name, one.question.removesuffix(" (polars)"))
             for one in VIEWS]
    assert headings("docs/screens.md")[1:] == [title for title, _ in parts]
    text = documented("docs/screens.md")
    assert not [question for _, question in parts if question not in text]


def test_every_rule_has_advice() -> None:
    assert sorted(headings("docs/fix.md")[1:]) == sorted(rule.id for rule in RULES)


def test_every_key_is_on_the_page_of_keys() -> None:
    block = documented("docs/keys.md").split("<!-- begin keys -->")[1].split("```")[1]
    assert not [key.name for key in KEYS if spelled(key.keys) not in block.split()]


def test_the_example_settings_hold_every_setting_with_its_default(tmp_path: Path) -> None:
    example = re.search(r"```toml\n(.*?)```", documented("docs/settings.md"), re.DOTALL)
    assert example
    (tmp_path / "config.toml").write_text(example[1], encoding="utf-8")
    loaded, given = settings.load(tmp_path / "config.toml"), tomllib.loads(example[1])
    assert set(given) == set(settings._CHECKS)
    assert set(given["thresholds"]) == set(Thresholds.__struct_fields__) and loaded.thresholds == Thresholds()
    assert (loaded.theme, loaded.units, loaded.ascii) == ("dark", "auto", False)


def test_every_link_leads_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    broken = [
        f"{page.name}: {target}" for page in pages
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert not broken


FINDINGS = re.findall(r"```\n\$ (warplens .*?)\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
"""Commands of the README on recordings that others published, and what they print."""


def test_the_readme_begins_with_a_recorded_finding_and_compares_two() -> None:
    assert [command.split()[1] for command, _ in FINDINGS] == ["report", "diff"]


@pytest.mark.parametrize(("command", "shown"), FINDINGS, ids=lambda text: text.split()[1] if "warplens" in text else "")
def test_the_readme_says_what_the_command_says_of_real_recordings(
    data: Path, capsys: pytest.CaptureFixture[str], command: str, shown: str
) -> None:
    words = [str(next(iter((data / "traces" / "kineto").rglob(word)), word)) if "worker" in word else word
             for word in command.split()[1:]]
    if any("worker" in word and not Path(word).exists() for word in words):
        pytest.skip("the recordings are not there")
    assert main.main(words) == 0
    printed = re.sub(r"\s+", " ", "".join(capsys.readouterr()))
    squeezed = [re.sub(r"\s+", " ", line).strip() for line in shown.splitlines()]
    assert squeezed and not [line for line in squeezed if line != "…" and line not in printed]


def test_every_page_is_named_in_the_readme() -> None:
    text = documented("README.md")
    assert not [path.name for path in (ROOT / "docs").glob("*.md") if f"(docs/{path.name})" not in text]


def steps() -> list[tuple[list[str], list[str]]]:
    """The walk-through: the keys of every row, and what must then be on the screen."""
    part = documented("docs/tour.md").split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("|")][2:]
    ticked = re.compile("`([^`]+)`")
    return [(ticked.findall(row[0]) if len(row) > 2 else [], ticked.findall(row[-1])) for row in rows]


async def test_the_walk_through_does_what_it_says() -> None:
    names = {spelled(key.keys): key.keys.split(",")[0] for key in KEYS}
    app = demo_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        for number, (typed, expected) in enumerate(steps(), 1):
            for word in typed:
                await press(pilot, *([names.get(word, word)] if word in names or len(word) == 1 else word))
            for _ in range(50):  # what a key asks for may lead to a further question on a busy machine
                shown = re.sub(r"\s+", " ", f"{screen_text(app)} {said(app)}")
                missing = [text for text in expected if text not in shown]
                if not missing:
                    break
                await settled(pilot)
            assert expected and not missing, f"row {number}, {missing}: {shown}"
    assert len(steps()) == 10 and list(Path.cwd().glob("*.md")), "the last row writes a file"
