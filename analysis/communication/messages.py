"""Messages: a send of one rank and the receive of another, paired by group, source, destination and order.

The n-th send on the source meets the n-th receive on the destination, counted from the begin where both recorded
equally many, else from the end backwards; by their sequence numbers where both ends carry them, and then for certain:
only pairs by order must overlap on the common clock. What names no source and destination is never paired: the order
of anonymous sends and receives is no evidence, and a clock taken from wrong pairs is off by as much as they are.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from ..core.intervals import Ints
from .collectives import MESSAGE, RECEIVE, SEND, SEND_RECEIVE, Collectives

_KEY = ("group", "group_ranks", "src_rank", "dst_rank")


class Messages(Struct, frozen=True):
    """``frame`` has a row per message, in order of number: ``number``, the rows of its ``send`` and ``recv`` in
    ``Collectives.frame``, the members ``src`` and ``dst``, and whether sequence numbers make it ``certain``.
    ``labelled``: sends and receives with a source and a target; ``unlabelled``: those without."""

    frame: pl.DataFrame
    labelled: int = 0
    unlabelled: int = 0


def messages_of(collectives: Collectives) -> Messages:
    """The messages between the members of a run."""
    ends = collectives.frame.with_row_index("row").filter(pl.col("kind").is_in([SEND, RECEIVE, SEND_RECEIVE])).select(
        pl.col("row").cast(pl.Int64), "member", "start_ns", "kind", "seq", *_KEY)
    known = ends.drop_nulls(["src_rank", "dst_rank"]).filter(pl.col("src_rank") != pl.col("dst_rank"))
    ranks = [one.rank for one in collectives.members]
    own = pl.Series([_place(members, ranks[member]) for members, member in known.select(
        "group_ranks", "member").rows()], dtype=pl.Int64)
    named = pl.when(pl.col("kind") == SEND).then(True).when(pl.col("kind") == RECEIVE).then(False)
    known = known.with_columns(
        sends=pl.when(own == pl.col("src_rank")).then(True).when(own == pl.col("dst_rank")).then(False).otherwise(
            named)).drop_nulls("sends")
    unlabelled = ends.height - known.height
    several = len(collectives.members) > 1
    pairs = [_paired(one) for _, one in known.group_by(_KEY, maintain_order=True)] if several else []
    rows = np.concatenate([np.zeros((0, 3), dtype=np.int64), *pairs])
    member = collectives.frame["member"].to_numpy()
    frame = pl.DataFrame({
        "number": np.arange(len(rows)), "send": rows[:, 0], "recv": rows[:, 1],
        "src": member[rows[:, 0]], "dst": member[rows[:, 1]], "certain": rows[:, 2] > 0,
    })
    return Messages(frame, known.height, unlabelled)


def _place(members: str | None, rank: int | None) -> int | None:
    """The place of a rank in its group; None where the group is not recorded whole."""
    if members is None or rank is None:
        return None
    parts = members.split(",")
    return parts.index(str(rank)) if str(rank) in parts else None


def _paired(ends: pl.DataFrame) -> Ints:
    """Rows of the send and the receive of each message of one group, source and destination, and 1 if by number."""
    sends, receives = (
        ends.filter("sends" if way else ~pl.col("sends")).sort("start_ns", "row") for way in (True, False))
    nothing = np.zeros((0, 3), dtype=np.int64)
    if sends["member"].n_unique() != 1 or receives["member"].n_unique() != 1 or (
        sends["member"][0] == receives["member"][0]
    ):
        return nothing
    if all(not one["seq"].null_count() and one["seq"].is_unique().all() for one in (sends, receives)):
        both = sends.select("seq", send="row").join(receives.select("seq", recv="row"), on="seq", maintain_order="left")
        return both.select("send", "recv", pl.lit(1, pl.Int64)).to_numpy()
    count = min(sends.height, receives.height)
    if not count:
        return nothing
    rows = [one["row"].to_numpy()[-count:] for one in (sends, receives)]
    return np.stack([*rows, np.zeros(count, dtype=np.int64)], axis=1)


def with_messages(frame: pl.DataFrame, messages: Messages) -> pl.DataFrame:
    """``Collectives.frame`` with column ``message``, the number of the message that a row is an end of (null for
    others); such rows have the kind ``MESSAGE``, ``pair``: 'source→destination' in ranks of the group, and ``sends``:
    whether it is the end that sends."""
    number, certain = np.full(frame.height, -1, dtype=np.int64), np.zeros(frame.height, dtype=bool)
    sends = np.zeros(frame.height, dtype=bool)
    sends[messages.frame["send"].to_numpy()] = True
    for end in ("send", "recv"):
        number[messages.frame[end].to_numpy()] = messages.frame["number"].to_numpy()
        certain[messages.frame[end].to_numpy()] = messages.frame["certain"].to_numpy()
    message = pl.Series("message", number)
    one = pl.col("message").is_not_null()
    return frame.with_columns(message.set(message < 0, None)).with_columns(
        kind=pl.when(one).then(pl.lit(MESSAGE)).otherwise("kind"),
        sends=pl.Series(sends), certain=pl.Series(certain),
        pair=pl.when(one).then(pl.format("{}→{}", "src_rank", "dst_rank")))
