"""Whatever was recorded becomes one line of harmless text that fits."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from warplens.analysis.core.names.short_name import fit_name
from warplens.analysis.core.text import clean, cut, display


@given(st.text(st.characters(), max_size=80), st.integers(1, 60))
def test_display_text_fits_and_holds_no_control(raw: str, width: int) -> None:
    for shown in (display(raw, width), fit_name(raw, width)):
        assert cell_len(shown) <= width
        assert not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in shown)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred", "␛[31mred"),
        ("a\nb\tc", "a␊b␉c"),
        ("\u202eevil", "⟨U+202E⟩evil"),
        ("\x9b2J", "⟨U+009B⟩2J"),
        ("[red]markup[/red]", "[red]markup[/red]"),
        ("\ud800", "\ufffd"),
    ],
)
def test_what_a_terminal_would_act_on_is_made_visible(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_a_megabyte_is_bounded() -> None:
    assert len(clean("x" * 1_000_000)) < 5_000


def test_cut_keeps_both_ends() -> None:
    assert cut("abcdefghij", 5) == "ab…ij"
