"""The roofline on the screen: the operators under the roofs of one run or two, one dot per row."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
from app_runs import Shelf, app_on, screen_text, settled

from warplens.loaders import schema
from warplens.loaders.ingest.call_tree import deferred
from warplens.loaders.trace import Device, Info, Trace
from warplens.tui.panes.roofline import Dot, Roof, RooflinePane, plot

SHAPES = ([[4096, 4096], [4096, 4096]], [[64, 4096], [4096, 64]])


def products(label: str, device: str, took: int) -> Trace:
    """Two matrix products on that device."""
    host: list[dict[str, Any]] = []
    kernels = []
    for at, shapes in enumerate(SHAPES):
        thread = {"pid": 1, "tid": 1, "rank": None, "start_ns": 1_000 * at}
        host += [{"name": "aten::mm", "dur_ns": 100, "kind": "op", "external_id": at + 1, "shapes": json.dumps(shapes),
                  "types": json.dumps(["c10::BFloat16"] * 2), **thread}]
        kernels.append({"index": at, "start_ns": 1_000_000 * at, "dur_ns": took, "name": f"gemm{at}", "kind": "kernel",
                        "device": "GPU 0", "rank": None, "op_id": at + 1})
    frames = {"host": pl.DataFrame(host), "kernels": pl.DataFrame(kernels)}
    info = Info(source=f"/traces/{label}", label=label, format="kineto", devices=(Device("GPU 0", device, {}),))
    return deferred(Trace(info).with_tables(
        **{name: schema.conform(name, frame.lazy()) for name, frame in frames.items()}))


async def test_from_thirty_rows_on_the_plot_stands_above_the_list() -> None:
    shelf = Shelf(one=products("one", "NVIDIA H100 80GB HBM3", 500_000))
    for height, drawn in ((40, True), (29, False)):
        app = app_on("one", shelf=shelf, view="roofline")
        async with app.run_test(size=(120, height)) as pilot:
            await settled(pilot)
            text = screen_text(app)
            assert ("FLOP/B" in text.split("Operators")[0]) is drawn
            assert "H100 80GB HBM3 bf16 989.4 TF/s" in text and "aten::mm" in text


async def test_a_peak_that_no_second_source_confirms_is_marked_in_the_border() -> None:
    app = app_on("one", shelf=Shelf(one=products("one", "NVIDIA L20", 5_000_000)), view="roofline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "L20 bf16 (claimed)" in screen_text(app)


async def test_a_clock_below_its_maximum_stands_beside_the_peak_in_the_border() -> None:
    run = products("one", "NVIDIA H100 80GB HBM3", 500_000)
    clock = {"t_ns": 10, "metric": "gpu_sm_frequency", "device": "GPU 0", "unit": "MHz", "value": 990.0}
    sampled = run.with_tables(metrics=schema.conform("metrics", pl.DataFrame([clock]).lazy()))
    async with app_on("one", shelf=Shelf(one=sampled), view="roofline").run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "bf16 989.4 TF/s (SM at 990 of 1,980 MHz)" in screen_text(pilot.app)


async def test_two_runs_share_one_plot() -> None:
    shelf = Shelf(a=products("a", "NVIDIA H100 80GB HBM3", 500_000), b=products("b", "AMD Instinct MI300X", 900_000))
    app = app_on("a", "b", shelf=shelf, view="roofline")
    async with app.run_test(size=(160, 45)) as pilot:
        await settled(pilot)
        text = screen_text(app)
        assert "bf16 989.4 TF/s" in text and "bf16 1.307 PF/s" in text
        assert sum(line.count("1") for line in text.splitlines() if "TF/s " in line[:14]) >= 2


async def test_in_the_middle_of_a_resize_the_plot_is_left_out_of_a_width_without_room_for_it() -> None:
    """The drawing gets its new width before the pane has its new size: random keys met a terminal of three columns."""
    app = app_on("one", shelf=Shelf(one=products("one", "NVIDIA H100 80GB HBM3", 500_000)), view="roofline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        pane = app.main.pane
        assert isinstance(pane, RooflinePane)
        assert ["FLOP/B" in pane.picture(width).plain for width in (3, 12, 20, 59, 60, 120)] == [False] * 4 + [True] * 2


def test_a_dot_stands_where_its_numbers_say_and_under_its_roof() -> None:
    lines = [line.plain for line in plot([Dot(0, 10.0, 1e12, "1"), Dot(0, 100.0, 1e13, "2")],
                                         [Roof(0, "one", 1e14, 1e12)], 90, 12)]
    place = {sign: (y, line.index(sign, 9)) for y, line in enumerate(lines[:-1]) for sign in "12" if sign in line[9:]}
    assert place["2"][0] < place["1"][0] and place["2"][1] > place["1"][1]
    roof = next(y for y, line in enumerate(lines) if line.startswith("100 TF/s"))
    assert roof < place["2"][0] and any(sign in lines[roof] for sign in "⠤⠒⠉")
    assert all(len(line) <= 90 for line in lines)
