"""What is written can be read in every theme, and no meaning rests on red against green."""

from __future__ import annotations

import colorsys

import pytest
from rich.color import Color
from rich.style import Style

from warplens.tui.session import themes

FAINT = {"faint", "missing", "gutter", "frame"}
"""What may be missed: 2.4 to 1; all other text 4 to 1."""
FAMILIES = ("gemm", "conv", "attention", "norm", "elementwise", "move", "collective", "copy")


def luminance(color: Color) -> float:
    """Relative luminance (WCAG 2)."""
    parts = [part / 255 for part in color.get_truecolor()]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(style: Style, base: Style) -> float:
    """Between a style's text and what is behind it."""
    front, behind = style.color or base.color, style.bgcolor or base.bgcolor
    assert front is not None and behind is not None
    one, other = sorted((luminance(front), luminance(behind)))
    return (other + 0.05) / (one + 0.05)


@pytest.mark.parametrize("name", [name for name in themes.names() if name not in ("terminal", "monochrome")])
def test_every_role_can_be_read_on_its_background(name: str) -> None:
    look = themes.look(name)
    for role in look.__struct_fields__:
        least = 1.5 if role == "frame" else 2.4 if role in FAINT else 4.0
        assert contrast(look.role(role), look.base) >= least, (name, role)


@pytest.mark.parametrize("name", themes.names())
def test_themes_of_sixteen_colours_and_none_keep_the_terminals_own(name: str) -> None:
    look = themes.look(name)
    colours = {look.role(role).color for role in look.__struct_fields__} - {None}
    if name == "monochrome":
        assert all(colour.is_default for colour in colours)
    elif name == "terminal":
        assert all(colour.triplet is None for colour in colours)


@pytest.mark.parametrize("name", ["dark", "light", "colour-blind"])
def test_families_keep_off_the_colours_that_judge(name: str) -> None:
    look = themes.look(name)
    judging = {look.role(role).color for role in ("good", "warn", "bad")}
    assert not judging & {look.role(one).color for one in FAMILIES}
    assert len({look.role(one).color for one in FAMILIES}) == len(FAMILIES)


def test_the_theme_for_the_colour_blind_judges_by_blue_and_orange() -> None:
    look = themes.look("colour-blind")
    hues = {}
    for role in ("good", "bad"):
        color = look.role(role).color
        assert color is not None
        hues[role] = colorsys.rgb_to_hls(*(part / 255 for part in color.get_truecolor()))[0] * 360
    assert 180 <= hues["good"] <= 260 and 20 <= hues["bad"] <= 60
