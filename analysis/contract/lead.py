"""The one number of an answer, and whether it is good or bad: typed facts that a screen draws large."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Judgement = Literal["bad", "look", "good", "same", "unchecked", ""]


class Lead(Struct, frozen=True):
    """``number`` as it is shown (``3.6×``), what it is of, how it is judged; ``lines`` judges lines by their label."""

    number: str
    caption: str
    judgement: Judgement = ""
    lines: dict[str, Judgement] = {}
