"""One recording as columnar tables.

A Trace is frozen and cheap to copy: its tables are LazyFrames, usually scans of Arrow files in the cache, so that an
analysis can stream tables larger than memory. A table the format cannot fill is empty, never None. This module does not
import polars, which takes as long as reading 100 MB.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from .account import CALL_BY as CALL_BY
from .account import OP_BY as OP_BY
from .account import Account

if TYPE_CHECKING:
    import polars as pl

    from .errors import Unreadable
    from .native.program import Program


Value = TypeVar("Value")
_FIRST = 1_000
"""Rows that ``has`` searches first: an in-memory table would otherwise build the whole column at once."""


def _empty(table: str) -> Callable[[], pl.LazyFrame]:
    def make() -> pl.LazyFrame:
        from . import schema

        return schema.empty(table)

    return make


def compiled_program(
    name: str, module: str, functions: tuple[tuple[str, str], ...], sources: tuple[str, ...]
) -> Program:
    """A program of compiled loops for an analysis; see ``native.program.Program`` for the arguments."""
    from .native.program import Program

    return Program(name, module, functions, sources)


class Device(Struct, frozen=True):
    """A recorded device: ``id`` as in the tables ('GPU 0'), product name and recorded properties."""

    id: str
    name: str | None = None
    properties: dict[str, Any] = field(default_factory=dict)


class Info(Struct, frozen=True):
    """Facts about the recording as a whole. ``label`` is the short name shown for the run. ``epoch_ns`` is the absolute
    time of the trace's zero, None if unknown. ``coverage`` is the fraction of the source that could be read (None if
    that is not meaningful). ``serialised`` is true if launches were replayed one by one (Nsight Compute), so totals are
    not wall time. ``warnings`` are sentences about problems in the input and how they were handled.
    """

    source: str
    label: str
    format: str
    tool: str | None = None
    bytes: int | None = None
    devices: tuple[Device, ...] = ()
    ranks: tuple[int, ...] = ()
    epoch_ns: int | None = None
    clock: str | None = None
    coverage: float | None = None
    serialised: bool = False
    warnings: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


class DerivedStore(Protocol):
    """Store for frames computed from a trace's tables; they are kept as long as the tables are."""

    def is_of(self, trace: Trace) -> bool:
        """Whether the store belongs to this trace, with exactly these tables."""
        ...

    def read(self, name: str) -> pl.DataFrame | None:
        """The frame stored as ``name``; None if there is none."""
        ...

    def write(self, name: str, frame: pl.DataFrame) -> None:
        """Store the frame if possible."""
        ...

    def parts(self, name: str) -> list[pl.LazyFrame] | None:
        """The parts stored as ``name``, as scans of files on disk; None if there are none."""
        ...

    def write_parts(self, name: str, frames: Iterable[tuple[int, pl.DataFrame]]) -> bool:
        """Store a frame that arrives in numbered parts; returns whether that succeeded."""
        ...

    def only_last(self, beginning: str, most: int) -> None:
        """Keep only the ``most`` most recently written entries whose names start with ``beginning``."""
        ...

    @property
    def identity(self) -> str:
        """Identifies the recording and its state: another recording, or a changed file, has a different identity."""
        ...


HeldRows = Callable[[Sequence[tuple[Sequence[str], Sequence[str]]]], Iterator[list[dict[str, Any]]]]
"""For groups of (kinds, columns): in batches, each group's rows as integer arrays by column, the least int64 for null,
and ``row``, their places in the table."""


class PartOf(Struct, frozen=True):
    """What a part of a run was cut from. ``one_cycle``: the part is one cycle, over whose ends gaps may reach.
    ``launched_outside``: its device work may have been launched by host slices of the parent that it does not hold.
    ``some_cycles``: the part is some cycles of the parent, whose figures are those that they have there."""

    parent: Trace
    one_cycle: bool = False
    launched_outside: bool = False
    some_cycles: bool = False


class Trace(Struct, frozen=True):
    """One recording, or a part of one: ``info`` and one lazy frame per table of ``schema.TABLES``. A part of a part is
    ``part_of`` the same run unless it says otherwise: it keeps the field."""

    info: Info
    kernels: pl.LazyFrame = field(default_factory=_empty("kernels"))
    host: pl.LazyFrame = field(default_factory=_empty("host"))
    metrics: pl.LazyFrame = field(default_factory=_empty("metrics"))
    call_chains: pl.LazyFrame = field(default_factory=_empty("call_chains"))
    launch_metrics: pl.LazyFrame = field(default_factory=_empty("launch_metrics"))
    launch_rules: pl.LazyFrame = field(default_factory=_empty("launch_rules"))
    enqueued: pl.LazyFrame = field(default_factory=_empty("enqueued"))
    allocations: pl.LazyFrame = field(default_factory=_empty("allocations"))
    cycles: pl.LazyFrame = field(default_factory=_empty("cycles"))
    profile: pl.LazyFrame = field(default_factory=_empty("profile"))
    operators: pl.LazyFrame = field(default_factory=_empty("operators"))
    kernel_stats: pl.LazyFrame = field(default_factory=_empty("kernel_stats"))
    host_stats: pl.LazyFrame = field(default_factory=_empty("host_stats"))
    breakdown: pl.LazyFrame = field(default_factory=_empty("breakdown"))
    comparison: pl.LazyFrame = field(default_factory=_empty("comparison"))
    rank_sums: pl.LazyFrame = field(default_factory=_empty("rank_sums"))
    device_sums: pl.LazyFrame = field(default_factory=_empty("device_sums"))
    cycle_device_sums: pl.LazyFrame = field(default_factory=_empty("cycle_device_sums"))
    cycle_sums: pl.LazyFrame = field(default_factory=_empty("cycle_sums"))
    collectives: pl.LazyFrame = field(default_factory=_empty("collectives"))
    idle_causes: pl.LazyFrame = field(default_factory=_empty("idle_causes"))
    idle_gaps: pl.LazyFrame = field(default_factory=_empty("idle_gaps"))
    findings: pl.LazyFrame = field(default_factory=_empty("findings"))
    history: pl.LazyFrame = field(default_factory=_empty("history"))
    derived_store: DerivedStore | None = None
    filled: dict[str, tuple[pl.LazyFrame, bool]] = field(default_factory=dict)  # results of ``has``, with their table
    captures: Callable[[], tuple[Trace | Unreadable, ...]] | None = None  # its graph captures, or the error
    memo: dict[str, list[tuple[tuple[object, ...], Any]]] = field(default_factory=dict)  # see ``remember``
    held_host: HeldRows | None = None  # the host table as its reader holds it; goes where that table is replaced
    part_of: PartOf | None = None  # None: a whole run
    keeper: object = None  # keeps the directories of its tables from being removed

    def table(self, name: str) -> pl.LazyFrame:
        """The table called ``name``. Raises KeyError if there is no such table."""
        if name not in TABLE_NAMES:
            raise KeyError(name)
        frame: pl.LazyFrame = getattr(self, name)
        return frame

    def unread(self, *words: str) -> tuple[str, ...]:
        """Notes about tables of the source that have rows, are not read, and are named after one of these words."""
        return tuple(f"{table}: {rows:,} rows of the recording are not read" for table, rows, is_read in
                     self.info.facts.get("tables", ()) if not is_read and any(word in table.upper() for word in words))

    def has(self, name: str) -> bool:
        """Whether ``table`` has rows, ``table.column`` any non-null value, or ``table.column=value`` that value."""
        import polars as pl

        from . import schema

        whole, _, rest = name.partition(".")
        column, _, value = rest.partition("=")
        table = self.table(whole)
        before = self.filled.get(name)
        if before is None or before[0] is not table:  # ``with_tables`` keeps the results of tables it does not replace
            # no ``filter`` before ``head``: polars never frees a Python source that it stops reading in the middle
            plans = [table.select(pl.first()).head(1).select(pl.first().is_null().len() > 0)]
            if column:
                holds = pl.col(column) == value if value else pl.col(column).is_not_null()
                plans = [rows.select(holds.any()) for rows in (table.select(column).head(_FIRST), table.select(column))]
            has_rows = table is not schema.empty(whole) and any(
                plan.collect(engine="streaming").item() for plan in plans)
            before = self.filled[name] = table, has_rows
        return before[1]

    def replays_graphs(self) -> bool:
        """Whether a host call launches a graph whose device activities were recorded."""
        import polars as pl

        if self.info.facts.get("graphless") or not self.has("kernels") or not self.has("host"):
            return False
        names = self.host.select(pl.col("name").unique()).collect(engine="streaming")["name"].cast(pl.String)
        return bool(names.str.contains("GraphLaunch").any())

    def is_readable(self) -> bool:
        """Whether the files of its tables are there; they may be removed, as with the cache, while a run is open."""
        import polars as pl

        try:
            for name in self.filled_tables():
                self.table(name).select(pl.first()).head(1).select(pl.len()).collect()
        except FileNotFoundError:
            return False
        return True

    def filled_tables(self) -> list[str]:
        """Names of the tables the loader returned, even if they have no rows; all others are ``schema.empty``."""
        from . import schema

        return [name for name in TABLE_NAMES if self.table(name) is not schema.empty(name)]

    def remember(self, name: str, key: tuple[object, ...], compute: Callable[[], Value], most: int = 4) -> Value:
        """The result of ``compute``, cached in memory by ``name`` and ``key`` for the lifetime of the run. The last
        ``most`` results per ``name`` are kept. Traces in a key are compared by identity."""
        entries = self.memo.setdefault(name, [])
        for other, value in entries:
            if len(other) == len(key) and all(map(_is_same, key, other)):
                return cast(Value, value)
        value = compute()
        entries.append((key, value))
        del entries[:-most]
        return value

    def remembered(self, name: str) -> Any:
        """The last result remembered under that name; None if there is none."""
        entries = self.memo.get(name)
        return entries[-1][1] if entries else None

    def share(self, name: str, compute: Callable[[], Value]) -> Value:
        """As ``remember``, for a result that takes much memory: it is dropped with the last of its users."""
        held = self.memo.get(name)
        value = cast("Value | None", held[0][1]()) if held else None
        if value is None:
            value = compute()
            self.memo[name] = [((), weakref.ref(value))]
        return value

    def derived(self, name: str, find: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """The frame ``find`` computes from these tables alone, read from and written to the store if there is one.
        ``name`` consists of lower-case letters, digits and dashes and must change whenever ``find`` does."""
        derived_store = self.derived_store
        if derived_store is None or not derived_store.is_of(self):
            return find()
        stored = derived_store.read(name)
        if stored is None:
            derived_store.write(name, stored := find())
        return stored

    def derived_rows(self, name: str, find: Callable[[], Iterable[pl.DataFrame]]) -> pl.LazyFrame:
        """As ``derived``, for rows that arrive in one or more parts. Stored parts stay on disk, so a slice reads only
        the parts it overlaps."""
        import polars as pl

        derived_store = self.derived_store
        if derived_store is None or not derived_store.is_of(self):
            return pl.concat(find()).lazy()
        stored = derived_store.parts(name)
        if stored is None and derived_store.write_parts(name, enumerate(find())):
            stored = derived_store.parts(name)
        return pl.concat(find()).lazy() if stored is None else pl.concat(stored)

    def with_tables(self, **tables: pl.LazyFrame) -> Trace:
        """The same recording with some tables replaced."""
        changes: dict[str, Any] = {**tables} | ({"held_host": None} if "host" in tables else {})
        # the copy gets its own ``filled`` and ``memo``, or this run would keep the copies' tables alive
        return replace(self, filled=self.filled.copy(), memo={}, **changes)

    def account(self) -> Account:
        """The launch call and the operator of each activity; see ``loaders.account``."""
        from .account.account_of import account_of

        return self.remember("account", (), lambda: account_of(self))

    @property
    def links(self) -> dict[str, Any]:
        """How launch calls and operators of the activities are known: ``call`` and ``op`` (activities by evidence),
        ``external_id`` (``agree tested used``), ``processes``, ``lost cut launch_calls repeats timeless``."""
        from .account.account_of import processes_of

        whole = self
        while whole.part_of is not None:
            whole = whole.part_of.parent
        return self.account().facts | {"processes": whole.remember("processes", (), lambda: processes_of(whole))}

    def warn(self, *sentences: str) -> Trace:
        """The same recording with warnings added."""
        return replace(self, info=replace(self.info, warnings=(*self.info.warnings, *sentences)), memo={})


def _is_same(one: object, other: object) -> bool:
    return one is other or (not isinstance(one, Trace) and one == other)


TABLE_NAMES: tuple[str, ...] = tuple(
    name for name in Trace.__struct_fields__ if Trace.__annotations__[name] == "pl.LazyFrame"
)
NO_DEVICE = "no device activity was recorded"
"""The start of a loader's warning; if a run has it, the overview omits its own note about missing device activity."""
RECOGNITION = "recognition"
"""Key in ``Info.facts`` of what a recording's communication was recognised by (``recognition.summary``)."""
OPERATIONS = "operations"
"""Key in ``Info.facts`` of a list of operations: all ranks on one clock, each doing one thing after the other."""
RECORDINGS = "recordings"
"""Key in ``Info.facts`` of one of several recordings in a file that were made one after another: their number."""
REDUCED = "reduced"
"""Key in ``Info.facts`` of a reduced dataset, which holds per-rank sums but not the events they were computed from."""
