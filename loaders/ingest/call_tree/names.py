"""The columns that are added to the host table. Imports nothing: most questions that are asked again need no more."""

from __future__ import annotations

COLUMNS = ("parent", "depth", "self_ns", "crosses")
