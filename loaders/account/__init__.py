"""Whose work each device activity is: its launch call, its operator, and how each is known.

There is one account per recording, made from the tables of any format when it is first needed and stored beside them.
Nothing else joins activities with calls or operators. What no evidence names stays without: a launch call is never
"the nearest before", and an operator is named by its External id only in a process where these ids agree with the
launches that other evidence names (``operators``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    import polars as pl

CALL_BY = ("none", "correlation", "flow", "runtime id")
"""How a launch call is known; ``call_by`` holds the position."""
OP_BY = ("none", "External id", "nesting", "replay", "External id of the call", "capture")
"""How an operator is known; ``op_by`` holds the position. ``replay``: the operator around the launch of a graph, which
is not the one that captured the kernel. ``capture`` is said of kernels joined with the capture of their graph."""


class Account(Struct, frozen=True):
    """``activities``: one row per row of ``kernels``, with ``call`` and ``op`` (rows of ``host``, null for none),
    ``call_by`` and ``op_by`` (see ``CALL_BY``, ``OP_BY``), ``launch_ns`` and ``launch_pid`` of the call,
    and ``graph``, whether a graph replayed it. ``missing``: launch calls of one kernel that no activity has (``row
    start_ns rank cut``); ``cut`` are those after the last call with a record. ``facts`` as ``Trace.links``, without the
    processes."""

    activities: pl.DataFrame
    missing: pl.DataFrame
    facts: dict[str, Any]
