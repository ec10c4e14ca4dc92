"""The registry of views: feeds the tabs, the bindings, the palette, the help, ``report --view`` and the README.

To add a view, write one file in this folder that defines ``VIEW`` and add one line here with the data the first frame
needs. The file holds the columns and the build function and is imported when the view is first opened. Other packages
register an ``Entry`` under the entry point group ``warplens.views``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from ... import extensions

if TYPE_CHECKING:
    from ...loaders.trace import Trace
    from ..contract.view import Runs, View


class Entry(NamedTuple):
    """Registry entry of a view: ``key`` opens it in the app ('' for none), ``question`` is the question it answers.
    ``module`` is a module of this folder, ``.module:NAME`` relative to it, or ``package.module:VIEW``. The view needs
    at least ``runs`` runs, ``ranks`` ranks (or devices), and data in one of ``tables`` (``table.column``: that column
    is filled; ``table.column=value``: a row has that value). ``short`` is the title on a narrow tab."""

    name: str
    key: str
    title: str
    question: str
    module: str
    tables: tuple[str, ...] = ()
    runs: int = 1
    short: str = ""
    ranks: int = 1

    def load(self) -> View:
        """Import the view's module and return the view."""
        name, colon, attribute = self.module.partition(":")
        module = import_module(name, __package__) if colon else import_module(f".{name}", __package__)
        view: View = getattr(module, attribute or "VIEW")
        return view


OURS: tuple[Entry, ...] = (
    Entry("overview", "1", "Overview", "Where does the time go, and how well are the devices used?", "overview",
          ("kernels", "host", "kernel_stats", "profile", "breakdown", "device_sums"), short="Over"),
    Entry("cycles", "2", "Cycles", "How long does an iteration take, and which are outliers?", "cycles",
          ("kernels", "host", "cycles", "profile", "cycle_sums"), short="Cyc"),
    Entry("kernels", "3", "Kernels", "Which kernels take the time, and what limits them?", "kernels",
          ("kernels", "kernel_stats", "profile", "cycle_sums"), short="Kern"),
    Entry("launches", "4", "Launches", "What ran, launch by launch?", "launches", ("kernels",), short="Lnch"),
    Entry("types", "T", "Types", "Which types of operators take the device time?",
          "..reported.types:VIEW", ("kernels.op_type",)),
    Entry("ops", "5", "Ops", "Which operators take time on the host and on the device?", "ops",
          ("host.kind=op", "operators")),
    Entry("timeline", "6", "Timeline", "What ran when, on which stream or thread?", "timeline",
          ("kernels.start_ns", "host.start_ns"), short="Time"),
    Entry("diff", "7", "Diff", "What changed between two runs beyond chance, and which resource explains it?", "diff",
          runs=2),
    Entry("idle", "8", "Idle", "Why did each device wait, and what emptied its queue?", "idle",
          ("kernels.start_ns", "idle_causes")),
    Entry("ranks", "9", "Ranks", "Which rank is late, who waits for it, and why?", "ranks",
          ("kernels", "rank_sums", "enqueued"), short="Rank", ranks=2),
    Entry("sql", "0", "SQL", "Your own SQL over the tables (polars)", "..table.sql:VIEW"),
    Entry("collectives", "v", "Collectives", "What does communication cost, and which rank is last?",
          "collectives", ("kernels.kind=collective", "collectives"), short="Coll"),
    Entry("whatif", "b", "What-if", "What would a change save per cycle, and how reliable is that?", "whatif",
          ("kernels.start_ns", "collectives"), short="What"),
    Entry("metrics", "m", "Metrics", "What did the counters read over time?", "metrics", ("metrics",), short="Met"),
    Entry("roofline", "p", "Roofline", "How far is each operator from what the hardware can do?", "roofline",
          ("host.shapes", "kernels.tensor", "kernels.dram"), short="Roof"),
    Entry("sections", "d", "Sections", "What did the profiler measure for each kernel, and what do its own rules say?",
          "..reported.sections:VIEW", ("launch_metrics", "launch_rules"), short="Sect"),
    Entry("samples", "", "Samples", "What did each counter read, sample by sample?", ".metrics:SAMPLES",
          ("metrics",)),
    Entry("memory", "M", "Memory", "What was peak memory, and what held it?", "memory",
          ("allocations", "metrics.metric=memory allocated"), short="Mem"),
    Entry("ranges", "", "Ranges", "How long do NVTX and other ranges take on the host and on the device?", "ranges",
          ("host.kind=annotation", "host.kind=dataloader", "host_stats.kind=annotation")),
    Entry("calls", "", "Host calls", "Which CUDA, HIP and OS calls take time, and which wait for the device?",
          "calls", ("host.kind=runtime", "host.kind=driver", "host.kind=io", "host_stats")),
    Entry("stacks", "", "CPU stacks", "Which functions ran on the CPU, and who called them?",
          "..reported.stacks:VIEW", ("call_chains",)),
    Entry("copies", "", "Copies", "How much is copied, in which direction, and how fast?", "copies",
          ("kernels.kind=memcpy", "kernels.kind=memset", "kernel_stats.kind=memcpy")),
    Entry("triage", "", "Triage", "What are the main findings, on one page?", "triage",
          ("kernels", "host", "kernel_stats", "profile", "breakdown", "device_sums")),
    Entry("history", "", "History", "What changed over many runs, when, and by how much?", "history", ("history",),
          short="Hist"),
    Entry("pairs", "", "Pairs", "How does the reference method score every function and metric?", "pairs",
          runs=2),
)


def _installed() -> tuple[Entry, ...]:
    """Views of other packages; they cannot replace a built-in view or take its key."""
    keys = {entry.key for entry in OURS}
    names = {entry.name for entry in OURS}
    return tuple(
        entry._replace(key="" if entry.key in keys else entry.key)
        for entry in extensions("views").values() if entry.name not in names
    )


VIEWS = (*OURS, *_installed())


_NEEDS = {
    "kernels": "device activities", "kernels.start_ns": "device activities with times", "host": "host calls",
    "host.start_ns": "host calls with times", "metrics": "counters", "launch_metrics": "metrics of single launches",
    "kernels.kind=collective": "collectives", "host.kind=op": "operators of a framework",
    "enqueued": "collectives of flight recorders", "call_chains": "CPU samples (nsys profile --sample=process-tree)",
    "kernels.op_type": "types of operators (Ascend has them)",
    "allocations": "allocations (profile_memory=True, or a memory snapshot)",
    "host.shapes": "shapes of operators (record_shapes=True)", "host.kind=annotation": "NVTX or other ranges",
    "host.kind=runtime": "calls of the CUDA or HIP API", "kernels.kind=memcpy": "copies",
}
"""Contents of each table or column in words, for the message that a recording lacks it."""


OF_ONE_RUN = "shows one run or two: in the history s lists the runs, t opens one"


def lacking(entry: Entry, runs: Runs) -> str:
    """Why the view is unavailable for these runs; '' where it is available or no run is open yet."""
    if not runs:
        return ""
    if any(run.has("history") for run in runs):
        return "" if "history" in entry.tables or entry.name == "sql" else OF_ONE_RUN
    if len(runs) < entry.runs:
        return "needs two runs; press o to open the second"
    if entry.ranks > max(1, *(len(run.info.ranks) or len(run.info.devices) for run in runs)):
        return "needs a recording of several ranks or devices"
    if not entry.tables or any(run.has(table) for table in entry.tables for run in runs):
        return ""
    return f"not recorded: {' or '.join(_NEEDS[table] for table in entry.tables if table in _NEEDS)}"


def holds(run: Trace) -> list[str]:
    """The kinds of data a recording contains, in words."""
    return [what.partition(" (")[0] for table, what in _NEEDS.items() if "." not in table and run.has(table)]


def answerable(runs: Runs) -> tuple[Entry, ...]:
    """The views available for these runs, in order; all views while no run is open."""
    return tuple(entry for entry in VIEWS if not lacking(entry, runs))


def view(name: str) -> View:
    """The view of that name; KeyError where there is none."""
    for entry in VIEWS:
        if entry.name == name:
            return entry.load()
    raise KeyError(name)
