"""No string reaches a widget as markup: the sources are walked for the places where one could."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from textual.content import Content

from warplens.tui.terminal import sanitiser

TUI = Path(__file__).resolve().parents[2] / "tui"
WIDGETS = {
    "Static", "Label", "Button", "Option", "Tab", "TabPane", "Collapsible", "Checkbox", "RadioButton", "Markdown",
    "Link", "Digits", "ListItem", "Tooltip", "Toast", "Placeholder",
}
ATTRIBUTES = {"tooltip", "border_title", "border_subtitle", "title", "sub_title"}
MAKERS = {"said", "Content", "Text", "assemble", "styled", "join"}
"""What gives text that is no markup."""


def offences(source: str) -> list[str]:
    """Every place of a module where a string may be read as markup, with its line."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            plain = any(k.arg == "markup" and getattr(k.value, "value", 1) is False for k in node.keywords)
            first = node.args[0] if node.args else None
            bad = (
                name == "from_markup"
                or (name == "notify" and not plain)
                or (name in WIDGETS and first is not None and not plain and not harmless(first))
                or (name == "update" and first is not None and textual(first))
            )
            if bad:
                found.append(f"line {node.lineno}: {name}")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Attribute) and target.attr in ATTRIBUTES and not harmless(node.value):
                    found.append(f"line {node.lineno}: .{target.attr}")
    return found


def harmless(node: ast.expr) -> bool:
    """Whether the expression is a constant without a bracket, nothing, or made by something that makes Content."""
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, str) or "[" not in node.value
    if isinstance(node, ast.Call):
        return (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) in MAKERS
    return False


def textual(node: ast.expr) -> bool:
    """Whether the expression is seen to be a string."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return name in {"display", "str", "cut", "clean", "format", "short"}
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def test_no_string_can_act_as_markup() -> None:
    found = {str(path.relative_to(TUI)): offences(path.read_text()) for path in TUI.rglob("*.py")}
    assert len(found) > 50 and {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "bad",
    ["Static(name)", "Label(f'{name}')", "Static('[red]x')", "app.notify(name)", "app.notify(name, markup=True)",
     "w.tooltip = name", "self.title = f'{name}'", "w.border_title = display(name)", "Content.from_markup(name)",
     "static.update(f'{x}')", "static.update(display(x))", "Option(name)"],
)
def test_the_rule_sees(bad: str) -> None:
    assert len(offences(bad)) == 1


@pytest.mark.parametrize(
    "good",
    ["Static(said(name))", "Static(name, markup=False)", "app.notify(name, markup=False)", "w.tooltip = said(name)",
     "static.update(said(x))", "seen.update(other)", "Label('plain words')", "w.tooltip = None"],
)
def test_the_rule_lets_pass(good: str) -> None:
    assert offences(good) == []


@pytest.mark.parametrize(
    "name",
    ["[red]x[/red]", "[/nope]", "[@click=app.bell]x[/]", "\x1b]0;t\x07", "\x9b2J", "\u202ex"],
)
def test_what_is_said_is_shown_as_it_is(name: str) -> None:
    content = sanitiser.display_content(name, "bold", 40)
    assert isinstance(content, Content)
    assert content.plain == name if name.isprintable() else all(char.isprintable() for char in content.plain)
