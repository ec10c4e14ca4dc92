"""Small runs in memory and an opener that hands them out, for every test of the app."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from textual.pilot import Pilot

from warplens.loaders import schema
from warplens.loaders.events import Failed, Loaded
from warplens.loaders.trace import Device, Info, Trace
from warplens.tui.app.app import WarplensApp
from warplens.tui.app.start import Start
from warplens.tui.session.settings import Settings

NAMES = (
    "ampere_bf16_s16816gemm_bf16_64x64", "void at::native::vectorized_elementwise_kernel<4, float>",
    "ncclDevKernel_AllReduce_Sum_bf16", "[red]markup[/red]", "softmax_warp_forward", "Memcpy HtoD (Pinned -> Device)",
)
KINDS = ("kernel", "kernel", "collective", "kernel", "kernel", "memcpy")
STEPS, PER_STEP = 6, 18
SAMPLED_NS = 40_000
"""How far apart the samples of counters are."""


def small_run(label: str = "normal", slow: float = 1.0, warnings: tuple[str, ...] = ()) -> Trace:
    """Six steps of eighteen launches on one device, ``slow`` times as long from the fourth step on."""
    rows: list[dict[str, Any]] = []
    cycles: list[dict[str, Any]] = []
    now = 0
    for step in range(STEPS):
        begin = now
        for number in range(PER_STEP):
            which = number % len(NAMES)
            factor = slow if step >= 3 and which == 0 else 1.0
            span = int((10_000 + 7_000 * which + 100 * ((step * 7 + number) % 5)) * factor)
            rows.append({
                "index": len(rows), "start_ns": now, "dur_ns": span, "name": NAMES[which], "kind": KINDS[which],
                "device": "GPU 0", "stream": 7, "grid": f"{which + 1},1,1", "block": "128,1,1",
                "tensor": 0.6 if which == 0 else 0.0, "dram": 0.1 * which, "correlation": len(rows) + 1,
            })
            now += span + 2_000
        now += 50_000
        cycles.append({
            "cycle": step + 1, "start_ns": begin, "dur_ns": now - begin, "label": f"ProfilerStep#{step + 1}",
            "kind": "step", "source": "recorded", "complete": True,
        })
    return Trace(
        Info(source=f"/traces/{label}.json", label=label, format="kineto", devices=(Device("GPU 0", "Test GPU"),),
             bytes=123_456, warnings=warnings),
        kernels=frame("kernels", rows), cycles=frame("cycles", cycles),
    )


def counted(label: str = "normal", clock: float = 1980.0, alone: bool = False) -> Trace:
    """A small run with two clocks, a power and a counter that was never read; ``alone`` without anything else."""
    rows: list[dict[str, Any]] = []
    for at in range(40):
        for metric, device, value, unit in (
            ("sm_clock", "GPU 0", clock if at < 20 else clock / 2, "MHz"), ("sm_clock", "GPU 1", 1500.0 + at, "MHz"),
            ("power", "GPU 0", 100.0 + 5 * at, "W"), ("fan", "GPU 0", None, "%"),
        ):
            rows.append({"ts_ns": at * SAMPLED_NS, "metric": metric, "device": device, "value": value, "unit": unit})
    run = small_run(label)
    samples = frame("metrics", rows)
    if alone:
        return Trace(Info(source=f"/traces/{label}.csv", label=label, format="nvidia-smi"), metrics=samples)
    return run.with_tables(metrics=samples)


def frame(table: str, rows: list[dict[str, Any]]) -> pl.LazyFrame:
    """Rows of plain values as a table of the data model."""
    return schema.conform(table, pl.DataFrame(rows, infer_schema_length=None).lazy())


class Shelf:
    """Opens runs by name: at once, never, or with an error; remembers what was cancelled."""

    def __init__(self, **runs: Trace | tuple[Trace, ...] | str) -> None:
        self.runs, self.cancelled = runs, []  # type: tuple[Any, list[str]]
        self.listeners: dict[str, Callable[[Any], None]] = {}

    def __call__(self, path: str) -> ShelfOpening:
        return ShelfOpening(self, path)


class ShelfOpening:
    """One load from a shelf; a name that is not on it never arrives."""

    def __init__(self, shelf: Shelf, path: str) -> None:
        self.shelf, self.path = shelf, path

    def start(self, on_event: Callable[[Any], None]) -> None:
        self.shelf.listeners[self.path] = on_event
        found = self.shelf.runs.get(self.path)
        if isinstance(found, Trace):
            on_event(Loaded(lambda: (found,)))
        elif isinstance(found, tuple):
            on_event(Loaded(lambda: found))
        elif isinstance(found, str):
            on_event(Failed(found, "Give another one."))

    def cancel(self) -> None:
        self.shelf.cancelled.append(self.path)

    def wait(self, timeout: float | None = None) -> None:
        """Nothing is left of what never began."""


class AppOfTests(WarplensApp):
    """The app in the process of the tests, whose signals are not its own."""

    def mind_signals(self) -> None:
        """They stay what they are."""


_usual = cache(small_run)
"""The same run for every app, as what follows from one is found out once."""


def app_on(
    *paths: str, shelf: Shelf | None = None, settings: Settings | None = None, discover: Any = None,
    none: bool = False, **more: Any,
) -> WarplensApp:
    """The app on runs of a shelf that has ``a`` and ``b``."""
    shelf = shelf or Shelf(a=_usual("normal"), b=_usual("abnormal", slow=3.0))
    return AppOfTests(() if none else paths or ("a",), shelf, discover, settings, Start(**more))


async def settled(pilot: Pilot[Any]) -> None:
    """Until no question is being asked and nothing waits to be shown, and the screen was painted."""
    app = pilot.app
    assert isinstance(app, WarplensApp)
    await quiet(pilot)
    while app.busy:
        while app.busy:  # asking for quiet sends a message to every widget, which is work the answer would wait for
            await asyncio.sleep(0.001)
        await quiet(pilot)
    app.screen._compositor.render_update(True, app._background_screens)  # the frames on the way were left out
    await quiet(pilot)


async def quiet(pilot: Pilot[Any]) -> None:
    """Until no widget has a message or a layout before it.

    A pilot's own pause waits until this process has used little of a processor for 20 ms, which it also has where
    others use them all: a layout that asks for another one is then taken for the last.
    """
    app = pilot.app
    rounds = 0
    while rounds < 2:  # what the last message of a round asks for, a widget only begins once it has none left
        await pilot._wait_for_screen()
        screen = app.screen
        screen._on_timer_update()
        pumps = app, *screen.walk_children(with_self=True)
        moving = screen._callbacks or any(one.message_queue_size or one._next_callbacks for one in pumps)
        rounds = 0 if moving else rounds + 1


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press each key and wait for what it does."""
    app = pilot.app
    assert isinstance(app, WarplensApp)
    for key in keys:
        await pilot.press(key)
        await settled(pilot)


def said(app: WarplensApp) -> str:
    """What was notified so far."""
    return " | ".join(note.message for note in app._notifications)


def screen_text(app: WarplensApp) -> str:
    """What is on the screen, as lines of text."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()[:height]
    return "\n".join("".join(segment.text for segment in strip)[:width].rstrip() for strip in lines)


def folder_with(tmp_path: Path, *names: str) -> Path:
    """A folder with empty files of those names."""
    for name in names:
        (tmp_path / name).write_text("")
    return tmp_path
