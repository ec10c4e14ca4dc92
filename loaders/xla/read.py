"""Builds the Trace of one profile from its planes.

Device planes are read first: their streams (or, on a TPU, the line of XLA Ops) become kernels, their line of steps
becomes cycles, and they give the names of the HLO ops. On the host, the runtime records each op it launches as a slice
with that name, inside a slice of the module: those become operators. Launch calls are on other lines and are linked to
their operator by the op they name. So a kernel's correlation id leads to its launch, the HLO op and the module. Lines
that only repeat others (modules, name scopes) are left out. Times are the line's plus the event's.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..account.repeats import without_repeats
from ..errors import Unreadable
from ..ingest import limits, stream
from ..kineto import dialect
from ..kineto.columns import FAR_TIME, NULL, Strings, block_of
from ..kineto.info import label_of
from ..kineto.tables import Tables
from ..loader import Job
from ..native.allocator import keep_freed
from ..protobuf.tokens import Ints, map_distinct
from ..protobuf.walk import walk_for
from ..recording.database import tables_of
from ..schema import NAME
from ..trace import NO_DEVICE, Device, Info, Trace
from .events import Details, Operators, XPlaneEvents, XPlaneReader
from .hlo import PROGRAM, Works, works_of
from .space import Line, Plane, Space, events_in, space_of

if TYPE_CHECKING:
    import polars as pl

_AGAIN = "Copy it again, in binary mode."
Mask = npt.NDArray[np.bool_]
_ABSOLUTE = 10**18  # ns (September 2001): larger times are Unix times, smaller ones are relative.
_HOST_PID = 701  # The host's pid in XLA's trace viewer, so that both exports of a capture agree.
_COPY, _SET = re.compile(r"mem_?cpy", re.I), re.compile(r"mem_?set", re.I)
_COLLECTIVE = re.compile(r"%?(?:all-reduce|all-gather|reduce-scatter|all-to-all|collective-|ragged-all-to-all)", re.I)
_CONTAINER = re.compile(r"%?(?:while|conditional|call)(?:[.\d ]|$)")
_OF_DEVICE = ("compute_cap_major", "compute_cap_minor", "core_count", "clock_rate", "memory_size", "memory_bandwidth")


def load(job: Job) -> Trace:
    """Read the file, which may be compressed. Raises Unreadable if it has no events."""
    keep_freed()
    path, fault = stream.plain_file(job.path, job.workspace, job.progress)
    try:
        file = os.open(path, os.O_RDONLY)
        try:
            return _Load(job, file, path.stat().st_size, fault).trace()
        except limits.Exceeded as error:
            raise error.unreadable(job.path) from None
        finally:
            os.close(file)
    finally:
        if path != job.path:
            path.unlink()


class _Load:
    def __init__(self, job: Job, file: int, size: int, fault: str | None) -> None:
        self.job, self.file, self.size, self.fault = job, file, size, fault
        self.walk = walk_for(size, job.compiled)
        self.strings = Strings()
        self.tables = Tables(self.strings, job.workspace, job.lasting, "XEvent")
        self.reader = XPlaneReader(file, self.walk, self.strings)
        self.details = Details(self.strings)
        self.operators = Operators(self.strings)
        self.ignored: Counter[str] = Counter()
        self.events = 0
        self.rows: Counter[str] = Counter()
        self.unread: Counter[str] = Counter()
        self.stepped = False
        self.launched: list[tuple[Ints, Ints, Ints, Ints]] = []

    def trace(self) -> Trace:
        with closing(self.tables):
            space = space_of(self.file, self.size, self.walk)
            for plane in space.planes:
                if plane.device:
                    self._device(plane, *plane.device)
            hosts = [plane for plane in space.planes if not plane.device and plane.name != "/host:metadata"]
            for plane in hosts:
                self._learn(plane)
            for plane in hosts:
                self._host(plane)
            if not self.events:
                raise Unreadable(self.job.path, *_nothing(space, self.reader, _is_mangled(self.file)))
            frames = self.tables.finish(None, self.job.lasting)
            self.job.progress(self.size, self.size, self.events)
            if self.launched and (works := works_of(self.file, self.size)):
                frames["kernels"] = self._with_works(frames["kernels"], works)
            return without_repeats(Trace(self._info(space)).with_tables(**frames), self.job)

    def _with_works(self, kernels: pl.LazyFrame, works: Works) -> pl.LazyFrame:
        """The kernels with the work and the source line of their op."""
        import polars as pl

        from ..kineto.flows import changed

        alone, modules = Counter(op for _, _, op in works), Counter((module, op) for module, _, op in works)
        any_module = {op: work for (_, _, op), work in works.items() if alone[op] == 1}
        of_module = {(module, op): work for (module, _, op), work in works.items() if modules[module, op] == 1}
        texts = self.strings.texts
        launched = pl.DataFrame(
            [np.concatenate(column) for column in zip(*self.launched, strict=True)], schema=[
                "offset", "module", "program", "op"])
        keys, pairs = ["module", "program", "op"], []
        for module, program, op in launched.select(keys).unique().iter_rows():
            name, where = texts[op] if op >= 0 else "", texts[module] if module >= 0 else ""
            number = PROGRAM.search(where)
            where, program_id = PROGRAM.sub("", where), int(number[1]) if number else program
            # a module without a number is joined only where no other has its name
            work = works.get((where, program_id, name)) or of_module.get((where, name))
            work = work or (any_module.get(name) if not where else None)
            if work is not None:
                pairs.append((module, program, op, where or None, name, *work))
        known = pl.DataFrame(pairs, orient="row", schema={
            **{key: launched.schema[key] for key in keys}, "op_module": pl.String, "op_name": pl.String,
            "op_flops": pl.Int64, "op_bytes": pl.Int64, "op_dtype": pl.String, "op_scope": pl.String,
            "op_line": pl.String})
        found = launched.join(known, on=keys, how="inner").drop(keys)
        places = kernels.select(pl.col("index").cast(pl.UInt32).alias("row"), "offset").collect()
        matches = places.join(found.unique("offset"), on="offset", how="inner").drop("offset")
        return changed("kernels", kernels, matches.with_columns(pl.col(pl.String).cast(NAME)), self.job)

    def _met(self, events: XPlaneEvents, plane: Plane, line: Line) -> None:
        self.events += events.rows
        self.rows[f"{plane.name} {line.name or line.id}"] += events.rows
        self.job.progress(min(int(events.offset[-1]), self.size), self.size, self.events)

    def _device(self, plane: Plane, word: str, number: int) -> None:
        self.tables.texts.device_word = word
        streams = [line for line in plane.lines if line.name.startswith("Stream")]
        ops = streams or [line for line in plane.lines if line.name == "XLA Ops"]
        for line in plane.lines:
            if line.name == "Steps":
                self._steps(plane, line)
            elif line in ops:
                match = re.search(r"#(\d{1,18})", line.name)
                for events in self.reader.events(plane, line):
                    self._met(events, plane, line)
                    self._kernels(events, number, int(match[1]) if match else line.id, bool(streams))
            else:
                self.ignored[line.name] += bool(line.name)
                self.unread[f"{plane.name} {line.name or line.id}"] += events_in(line, self.file, self.walk)

    def _kernels(self, events: XPlaneEvents, device: int, stream: int, launched: bool) -> None:
        names, stats = events.name, events.statistics
        op = stats.texts("hlo_op")
        self.operators.add_names(op)
        self.launched.append((
            events.offset, stats.texts("hlo_module"), stats.numbers("program_id"), np.where(op < 0, names, op)))
        kernel, copy = stats.texts("kernel_details"), stats.texts("memcpy_details")
        copy = np.where(copy < 0, stats.texts("memset_details"), copy)
        keep = np.ones(events.rows, bool) if launched else ~self._contains(events)
        self.ignored["loops and branches around other ops"] += int((~keep).sum())
        occupancy = self.details.numbers(kernel, ["occ_pct"])
        result = block_of(
            events.rows,
            {
                "ts": events.start, "dur": events.dur, "device": device, "stream": stream, "offset": events.offset,
                "correlation": stats.numbers("correlation_id"), "bytes": self.details.numbers(copy, ["size"]),
                "registers": self.details.numbers(kernel, ["regs"]),
                "shared": self.details.numbers(kernel, ["static_shared", "dynamic_shared", "group_mem"]),
            },
            {
                "cat": self._categories(names, launched), "name": names,
                "grid": self.details.triples(kernel, "grid"), "block": self.details.triples(kernel, "block"),
            },
            {"occupancy": np.where(occupancy > 0, occupancy, np.nan)},
        )  # fmt: skip
        self.tables.add(self.tables.rows_of(result.take(np.flatnonzero(keep))))

    def _categories(self, names: Ints, launched: bool) -> Ints:
        def category(name: str) -> str:
            if launched and _COPY.match(name):
                return "gpu_memcpy"
            if launched and _SET.match(name):
                return "gpu_memset"
            return "collective_comm" if _COLLECTIVE.match(name) else "kernel"

        return self._by_name(names, category)

    def _by_name(self, names: Ints, category: Callable[[str], str]) -> Ints:
        return map_distinct(names, lambda code: self.strings.code(category(self.strings.texts[code])))

    def _contains(self, events: XPlaneEvents) -> Mask:
        """Whether each op of a core is a loop or branch around the next op: the ops inside did the work."""
        order = np.lexsort((-events.dur, events.start))
        start, end = events.start[order], events.start[order] + events.dur[order]
        around = np.zeros(events.rows, bool)
        around[order[:-1]] = start[1:] < end[:-1]
        is_container = map_distinct(events.name, lambda code: _CONTAINER.match(self.strings.texts[code]), bool)
        values: Mask = around & is_container & (events.start > FAR_TIME) & (events.dur >= 0)
        return values

    def _steps(self, plane: Plane, line: Line) -> None:
        """Add the recorded steps of the first device that has any; other devices repeat them."""
        if self.stepped:
            self.unread[f"{plane.name} {line.name}"] += events_in(line, self.file, self.walk)
            return
        for events in self.reader.events(plane, line):
            self._met(events, plane, line)
            self._cycles(events, events.name, np.arange(events.rows))

    def _cycles(self, events: XPlaneEvents, labels: Ints, rows: npt.NDArray[np.intp]) -> None:
        for row in rows.tolist():
            start, dur = int(events.start[row]), int(events.dur[row])
            if start > FAR_TIME and dur >= 0:
                self.stepped = True
                self.tables.cycle(self.strings.texts[labels[row]], start, dur)

    def _learn(self, plane: Plane) -> None:
        """Register where each HLO op was launched on the host."""
        for line in plane.lines:
            for events in self.reader.events(plane, line):
                self.operators.learn(events)
        self.reader.broken = self.reader.damaged = 0  # all events are read again

    def _host(self, plane: Plane) -> None:
        recorded = self.stepped
        for line in plane.lines:
            for events in self.reader.events(plane, line):
                self._met(events, plane, line)
                steps = events.statistics.numbers("step_num")
                marked = np.flatnonzero(steps != NULL)
                if len(marked) and not recorded:
                    texts = self.strings.texts
                    labels = events.name.copy()
                    labels[marked] = [
                        self.strings.code(f"{texts[code]} {number}")
                        for code, number in zip(events.name[marked].tolist(), steps[marked].tolist(), strict=True)
                    ]
                    self._cycles(events, labels, marked)
                self._slices(events, line)

    def _slices(self, events: XPlaneEvents, line: Line) -> None:
        correlation = events.statistics.numbers("correlation_id")
        external, is_operator = self.operators.of(events)
        category = self._by_name(events.name, dialect.category_without)
        category[is_operator] = self.strings.code("cpu_op")
        called = (correlation != NULL) & ~is_operator & (category == self.strings.code("user_annotation"))
        category[called] = self.strings.code("cuda_runtime")
        result = block_of(
            events.rows,
            {
                "ts": events.start, "dur": events.dur, "pid": _HOST_PID, "tid": line.id, "offset": events.offset,
                "correlation": correlation, "external_id": external,
            },
            {"cat": category, "name": events.name}, {},
        )  # fmt: skip
        self.tables.add(self.tables.rows_of(result))

    def _info(self, space: Space) -> Info:
        word, tables = self.tables.texts.device_word, self.tables
        properties = {plane.device[1]: plane.own for plane in space.planes if plane.device}
        used = sorted(number for number in tables.spools["kernels"].devices if number >= 0)
        began = next((p.own.get("profile_start_time") for p in space.planes if "profile_start_time" in p.own), None)
        first, epoch = tables.earliest, None
        if first is not None:
            epoch = first if first >= _ABSOLUTE else began + first if isinstance(began, int) else None
        unread = {name: count for name, count in self.unread.items() if count}
        facts: dict[str, object] = {"events": self.events, "tables": tables_of(self.rows, unread)}
        facts |= {"host_name": space.hosts[0]} if space.hosts else {}
        ignored = {name: count for name, count in self.ignored.items() if count}
        facts |= {"ignored": ignored} if ignored else {}
        return Info(
            source=str(self.job.path), label=label_of(self.job.path), format="xla", tool="XLA profiler",
            bytes=self.job.path.stat().st_size, epoch_ns=epoch, clock="wall clock" if epoch is not None else None,
            devices=tuple(_described(f"{word} {number}", properties.get(number, {})) for number in used),
            coverage=None if self.fault else min(1.0, space.end / self.size) if space.cut else 1.0,
            warnings=self._warnings(space), facts=facts,
        )  # fmt: skip

    def _warnings(self, space: Space) -> tuple[str, ...]:
        warnings = []
        if self.fault:
            warnings.append(self.fault)
        elif space.cut or self.reader.damaged:
            warnings.append("truncated or damaged: a plane of the file could be read only in part")
        broken = self.reader.broken + space.broken
        if broken:
            warnings.append(f"{broken:,} damaged stretches of the file were skipped")
        if self.tables.untimed:
            warnings.append(f"dropped {self.tables.untimed:,} events without a usable time")
        warnings += self.tables.time_warnings()
        if not self.tables.spools["kernels"].rows:
            warnings.append(f"{NO_DEVICE}, only the host")
        warnings += [f"the profiler reported: {' '.join(text.split())[:200]}" for text in space.complaints[:5]]
        return tuple(warnings)


def _nothing(space: Space, reader: XPlaneReader, mangled: bool) -> tuple[str, str]:
    """The reason why there is nothing to show, and the advice."""
    if space.cut or space.broken or reader.broken or reader.damaged:
        why = "is damaged: it begins as an XLA profile, but its messages cannot be read"
        return why + (": a text tool replaced bytes with U+FFFD" if mangled else ""), _AGAIN
    return "is an XLA profile without events", "Check that work ran while it was recorded."


def _is_mangled(file: int) -> bool:
    """Whether a tool decoded the bytes as UTF-8 and wrote them back, which destroys all invalid sequences."""
    return os.pread(file, 1 << 16, 0).count(b"\xef\xbf\xbd") > 16


def _described(name: str, properties: dict[str, int | float | str]) -> Device:
    kind = properties.get("device_type_string") or properties.get("device_vendor")
    facts = {key: properties[key] for key in _OF_DEVICE if key in properties}
    return Device(name, kind if isinstance(kind, str) else None, facts)
