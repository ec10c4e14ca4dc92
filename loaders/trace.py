"""One recording as columnar tables.

A Trace is frozen and cheap to copy: its tables are lazy frames, usually scans of Arrow files in the cache, so that an
analysis can stream what is bigger than memory. A table the format cannot fill is empty, never None. To import this is
not to import polars, which takes as long as it takes to read a hundred megabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

if TYPE_CHECKING:
    import polars as pl

    from .native.program import Program


Value = TypeVar("Value")
_FIRST = 1_000
"""Rows in which a value is looked for first: a table that is in memory makes a column of all rows at once."""


def _empty(table: str) -> Callable[[], pl.LazyFrame]:
    def made() -> pl.LazyFrame:
        from . import schema

        return schema.empty(table)

    return made


def compiled_program(
    name: str, module: str, functions: tuple[tuple[str, str], ...], sources: tuple[str, ...]
) -> Program:
    """Loops of an analysis that are compiled as those of the loaders are; ``native.program.Program`` says of what."""
    from .native.program import Program

    return Program(name, module, functions, sources)


class Device(Struct, frozen=True):
    """A device of the recording: ``id`` as the tables name it ('GPU 0'), product name and recorded properties."""

    id: str
    name: str | None = None
    properties: dict[str, Any] = field(default_factory=dict)


class Info(Struct, frozen=True):
    """What is known about the recording as a whole. ``label`` is the short name shown for the run. ``epoch_ns`` is the
    absolute time of the trace's zero, where known. ``coverage`` is the fraction of the source that could be read (None
    where that means nothing). ``serialised`` is true where launches were replayed one by one (Nsight Compute), so that
    totals are not wall time. ``warnings`` are sentences about what was wrong in the input and what was done about it.
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
    """Where what was found out about a trace is kept as long as its tables are."""

    def is_of(self, trace: Trace) -> bool:
        """Whether it is that trace's, with all of its tables."""
        ...

    def read(self, name: str) -> pl.DataFrame | None:
        """What is kept under that name."""
        ...

    def write(self, name: str, frame: pl.DataFrame) -> None:
        """Keep it, if that can be."""
        ...

    def parts(self, name: str) -> list[pl.LazyFrame] | None:
        """The parts of what is kept under that name, left on disk."""
        ...

    def write_parts(self, name: str, frames: Iterable[tuple[int, pl.DataFrame]]) -> bool:
        """Keep what comes in numbered parts; whether that could be."""
        ...

    def only_last(self, beginning: str, most: int) -> None:
        """Of what is kept under names that begin so, leave the ``most`` that were written last."""
        ...

    @property
    def identity(self) -> str:
        """Names the state of the recording: another one, or the same file changed, has another."""
        ...


class Trace(Struct, frozen=True):
    """One recording: ``info`` and one lazy frame per table of ``schema.TABLES``."""

    info: Info
    kernels: pl.LazyFrame = field(default_factory=_empty("kernels"))
    host: pl.LazyFrame = field(default_factory=_empty("host"))
    metrics: pl.LazyFrame = field(default_factory=_empty("metrics"))
    call_chains: pl.LazyFrame = field(default_factory=_empty("call_chains"))
    launch_metrics: pl.LazyFrame = field(default_factory=_empty("launch_metrics"))
    launch_rules: pl.LazyFrame = field(default_factory=_empty("launch_rules"))
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
    filled: dict[str, tuple[pl.LazyFrame, bool]] = field(default_factory=dict)  # what ``has`` found, and of which
    captures: Callable[[], tuple[Trace | str, ...]] | None = None  # of its graphs, or why one cannot be read
    memo: dict[str, list[tuple[tuple[object, ...], Any]]] = field(default_factory=dict)  # see ``remember``
    keeper: object = None  # of the directories that its tables are in

    def table(self, name: str) -> pl.LazyFrame:
        """The table of that name; KeyError for a name that is none."""
        if name not in TABLE_NAMES:
            raise KeyError(name)
        frame: pl.LazyFrame = getattr(self, name)
        return frame

    def has(self, name: str) -> bool:
        """Whether the table has a row, ``table.column`` any value, or ``table.column=value`` a row with that one."""
        import polars as pl

        from . import schema

        whole, _, rest = name.partition(".")
        column, _, value = rest.partition("=")
        table = self.table(whole)
        before = self.filled.get(name)
        if before is None or before[0] is not table:  # with other tables the same is known of those that stayed
            plans = [table.select(pl.first())]
            if column:
                holds = pl.col(column) == value if value else pl.col(column).is_not_null()
                plans = [rows.filter(holds) for rows in (table.select(column).head(_FIRST), table.select(column))]
            has_rows = table is not schema.empty(whole) and any(
                not plan.head(1).collect(engine="streaming").is_empty() for plan in plans)
            before = self.filled[name] = table, has_rows
        return before[1]

    def filled_tables(self) -> list[str]:
        """The tables that the loader gave, even if without rows; the others are the empty ones of the schema."""
        from . import schema

        return [name for name in TABLE_NAMES if self.table(name) is not schema.empty(name)]

    def remember(self, name: str, key: tuple[object, ...], compute: Callable[[], Value], most: int = 4) -> Value:
        """What ``compute`` returns, from memory where it was computed for an equal key; it goes when the run goes. Of
        each ``name`` the last ``most`` are kept. Runs in a key are compared by identity."""
        entries = self.memo.setdefault(name, [])
        for other, value in entries:
            if len(other) == len(key) and all(map(_is_same, key, other)):
                return cast(Value, value)
        value = compute()
        entries.append((key, value))
        del entries[:-most]
        return value

    def derived(self, name: str, find: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """What ``find`` tells of these tables, and of nothing else: read where it was kept, kept where it can be.
        ``name`` is of small letters, digits and dashes and has to change when ``find`` does."""
        derived_store = self.derived_store
        if derived_store is None or not derived_store.is_of(self):
            return find()
        stored = derived_store.read(name)
        if stored is None:
            derived_store.write(name, stored := find())
        return stored

    def derived_rows(self, name: str, find: Callable[[], Iterable[pl.DataFrame]]) -> pl.LazyFrame:
        """As ``derived``, of rows that come in at least one part; where they are kept they stay on disk. So a slice of
        them reads only the parts it lies in."""
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
        changes: dict[str, Any] = {**tables}
        # a copy has its own of both, or this run would hold tables of its copies
        return replace(self, filled=self.filled.copy(), memo={}, **changes)

    def warn(self, *sentences: str) -> Trace:
        """The same recording with warnings added."""
        return replace(self, info=replace(self.info, warnings=(*self.info.warnings, *sentences)), memo={})


def _is_same(one: object, other: object) -> bool:
    return one is other or (not isinstance(one, Trace) and one == other)


TABLE_NAMES: tuple[str, ...] = tuple(
    name for name in Trace.__struct_fields__ if Trace.__annotations__[name] == "pl.LazyFrame"
)
NO_DEVICE = "no device activity was recorded"
"""The start of a loader's warning. Where a run has it, the overview leaves out its own note of that."""
REDUCED = "reduced"
"""In the facts of a run that is a reduced dataset: it holds sums of each rank, and not what they are sums of."""
