"""Upper bounds of times and durations, as plain integers for readers that do not import polars."""

from __future__ import annotations

LATEST_NS, LONGEST_NS = 4 * 10**18, 10**16
"""Absolute times lie before 2096 and no activity lasts four months. Loaders drop anything beyond as damage, because
differences and sums of such numbers could overflow 64 bits."""
