"""Settings are checked, and an error names the file and the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.analysis.contract.options import Thresholds
from warplens.analysis.core import units
from warplens.tui.session.keys import KEYS
from warplens.tui.session.settings import BadSettings, Settings, load


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


def test_no_file_is_the_defaults(tmp_path: Path) -> None:
    assert load(tmp_path / "absent.toml") == Settings()


def test_all_settings_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, """
theme = "light"
view = "kernels"
units = "us"
ascii = true
[thresholds]
tensor = 0.4
launch_ns = 4000
[keys]
export = "f5"
page_down = ["pagedown", "ctrl+v"]
help = ["?", "f1"]
""")
    made = load(path)
    assert (made.theme, made.view, made.units, made.ascii) == ("light", "kernels", "us", True)
    assert (made.thresholds.tensor, made.thresholds.launch_ns, made.thresholds.dram) == (0.4, 4000, 0.5)
    assert made.keymap == {"export": "f5", "list.page_down": "pagedown,ctrl+v", "help": "question_mark,f1"}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('theme = "dark"\nview = "kernel"\n', 2, "'kernel' is not one of"),
        ('# mine\n\ncolour = "red"\n', 3, "colour is not a setting"),
        ('theme = "dark"\n[thresholds]\ndram = 0.5\ntensor = 50\n', 4, "tensor must be a fraction from 0 to 1"),
        ('[keys]\nexport = "e"\nfly = "f"\n', 3, "fly is not the name of a key"),
        ('[keys]\nexport = "f"\n', 2, "that key belongs to filter"),
        ('[keys]\nnote = "i"\nexport = "b"\n', 3, "'b' opens the view whatif; give export another key"),
        ('[keys]\nexport = "superkey"\n', 2, "'superkey' is not a key"),
        ('[keys]\nexport = "f5"\ncopy = "f5"\n', 3, "'f5' is already given to export"),
        ("theme = dark\n", 1, "Invalid value"),
        ("ascii = 1\n", 1, "neither true nor false"),
    ],
)
def test_a_mistake_names_file_and_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadSettings) as error:
        load(path)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert said in str(error.value)


def test_the_command_line_is_stronger(tmp_path: Path) -> None:
    assert load(written(tmp_path, 'theme = "light"\n'), theme="monochrome").theme == "monochrome"
    with pytest.raises(BadSettings, match="--theme"):
        load(tmp_path / "absent.toml", theme="pink")


def test_units_can_be_fixed() -> None:
    units.use("us")
    try:
        assert [units.duration(ns) for ns in (1_500_000, 20)] == ["1,500 µs", "0.02 µs"]
    finally:
        units.use("auto")
    assert units.duration(1_500_000) == "1.50 ms"


def test_every_setting_and_key_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "settings.md").read_text()
    for name in (*Settings.__struct_fields__, *Thresholds.__struct_fields__):
        assert f"\n{name} = " in page or f"\n[{name}]" in page, name
    for key in KEYS:
        assert f"| {key.name} | " in page, key.name
