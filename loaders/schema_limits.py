"""What a number in a table can be at most: plain numbers, for readers that have not loaded the column engine."""

from __future__ import annotations

LATEST_NS, LONGEST_NS = 4 * 10**18, 10**16
"""Absolute times are before 2096 and no activity lasts four months. What is beyond is damage, which loaders leave out:
a difference or a sum of such numbers no longer fits 64 bits."""
