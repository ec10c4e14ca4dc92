"""Which fields of which messages a loader wants, as tables a walk can follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .layout import DEEPEST, MESSAGE, NUMBERS_END, SKIP

Fields = dict[int, tuple[str, Any]]  # Field number → name and kind, or name and the fields of the message it is.


class Shape:
    """Messages as slots: one for each wanted field of each kind of message, in the order they are declared. The
    outermost message (kind 0) is what the data is the inside of; its fields are the items of a walk. A kind of message
    belongs to one field, so the n-th message of a kind is the n-th token of that field's slot. ``slots`` (kinds of
    messages × field numbers) is the slot of each field or -1, ``by_number`` the same as one mapping for each kind;
    ``kinds`` and ``inside`` say of each slot what it is and which kind of message it leads to."""

    def __init__(self, fields: Fields) -> None:
        self.names: dict[str, int] = {}
        self.children: dict[str, str] = {}
        rows: list[dict[int, int]] = []
        kinds, inside = list[int](), list[int]()

        def message(fields: Fields, path: str, depth: int) -> int:
            assert depth < DEEPEST
            rows.append({})
            own = len(rows) - 1
            for number, (name, what) in fields.items():
                slot = len(kinds)
                full = f"{path}.{name}" if path else name
                self.names[full] = rows[own][number] = slot
                kinds.append(MESSAGE if isinstance(what, dict) else what)
                inside.append(-1)
                if isinstance(what, dict):
                    inside[slot] = message(what, full, depth + 1)
            return own

        message(fields, "", 0)
        self.by_number = rows
        self.slots: npt.NDArray[np.int16] = np.full((len(rows), NUMBERS_END), -1, np.int16)
        for own, row in enumerate(rows):
            for number, slot in row.items():
                self.slots[own, number] = slot
        self.kinds = np.array([*kinds, SKIP], np.uint8)
        self.inside = np.array([*inside, -1], np.int16)
        self.count, self.messages = len(kinds), len(rows)
