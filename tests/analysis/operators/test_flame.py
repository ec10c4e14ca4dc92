"""Flame graphs sum to what ops says, to the nanosecond, and their files are what other tools read."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from runs import host, kernel, run_of, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.query.ask import ask
from warplens.analysis.table.export import WrongFormat, render
from warplens.analysis.table.flame import flame_of
from warplens.analysis.table.table import Table
from warplens.analysis.views.idle import VIEW as IDLE
from warplens.analysis.views.ops import TREE, VIEW
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace

HOSTILE = 'x<script>&"]]>;\x1b[31m\n\u202eevil'


def run(slow: int = 1, name: str = "gemm") -> Trace:
    """Two steps with an operator in an operator under a module, and a kernel that nobody launched."""
    slices, kernels = [host("nn.Module: Net", 0, 2_000, "python")], [kernel(0, 5, 7, "orphan", stream=1)]
    for at, start in enumerate((10, 1_010)):
        slices += [host("aten::linear", start, 400), host("aten::mm", start + 10, 300),
                   host("cudaLaunchKernel", start + 20, 5, "runtime", correlation=at + 1)]
        kernels.append(kernel(at + 1, start + 50, 30 * slow + at, name, correlation=at + 1, stream=1))
    return run_of(host=slices, kernels=kernels, cycles=steps(1_000, 1_000))


def test_frames_are_as_wide_as_what_is_below_them() -> None:
    flame = flame_of(ask(TREE, (run(),)))
    assert [(one.name, one.depth, one.value) for one in flame.frames] == [
        ("Net", 0, 61), ("aten::linear", 1, 61), ("aten::mm", 2, 61), ("gemm", 3, 61), ("orphan", 0, 7)]
    assert flame.total == 68 and [one.start for one in flame.frames] == [0, 0, 0, 0, 61]
    assert flame.own() == [0, 0, 0, 61, 7]
    assert [one.name for one in flame.stack(2)] == ["Net", "aten::linear", "aten::mm"]


SOURCES = [Path(__file__).parents[3] / "samples" / "demo" / "normal.json.gz"]


def sums(table: Table) -> Counter[str]:
    """Own device time by operator, from the flame."""
    flame, own = flame_of(table), Counter[str]()
    for one in flame.frames:
        if one.kind not in ("module", "operator") and one.above >= 0:
            own[flame.frames[one.above].name] += one.value
    return own


def flame_totals(one: Trace) -> list[int]:
    """Device time and idle time of the flame, ns."""
    tree = ask(TREE, (one,))
    return [flame_of(tree).total, flame_of(tree, "idle").total]


def listed_totals(one: Trace) -> list[int]:
    """Device time of ops and the sum of the gaps in idle, ns, which is that of its devices."""
    idle = ask(IDLE, (one,), Options())
    gaps = sum(idle.frame["dur_ns"].to_list())
    assert gaps == sum(each["idle_ns"] for each in idle.facts["devices"])
    return [ask(VIEW, (one,)).facts["device_ns"], gaps]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_sums_are_those_of_ops_to_the_nanosecond(path: Path) -> None:
    (one,) = open_run(str(path), use_cache=False)
    assert flame_totals(one) == listed_totals(one)
    own = sums(ask(TREE, (one,)))
    listed = dict(ask(VIEW, (one,)).frame.select("name", "device_self_ns").rows())
    assert {name: ns for name, ns in own.items() if ns} == {name: ns for name, ns in listed.items() if ns}


def test_sums_of_a_recorded_training_are_those_of_ops(data: Path) -> None:
    folder = data / "traces" / "kineto" / "tb_plugin" / "samples" / "resnet50_num_workers_0"
    (one,) = open_run(str(folder), use_cache=False)
    assert flame_totals(one) == listed_totals(one)


def test_folded_stacks_sum_to_all_there_is_and_hold_no_control_character() -> None:
    text = render(ask(TREE, (run(name=HOSTILE),)), "folded").decode()
    lines = text.splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == 68 and len(lines) == 2
    assert lines[0].startswith("Net;aten::linear;aten::mm;x<script>") and lines[0].count(";") == 3
    assert "\x1b" not in text and "\u202e" not in text
    pair = render(ask(TREE, (run(), run(3))), "folded").decode().splitlines()
    assert pair[0].split(" ")[-2:] == ["30", "90"], "per cycle, A before B"


def valid(document: dict[str, object]) -> list[dict[str, object]]:
    """What the schema of speedscope requires of a document with sampled profiles."""
    assert set(document) <= {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    shared, profiles = document["shared"], document["profiles"]
    assert isinstance(shared, dict) and isinstance(profiles, list) and set(shared) == {"frames"}
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert all(isinstance(one["name"], str) and one["name"] and set(one) <= {"name", "file", "line", "col"}
               for one in shared["frames"])
    for one in profiles:
        assert set(one) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert one["type"] == "sampled" and one["unit"] == "nanoseconds" and len(one["samples"]) == len(one["weights"])
        assert all(0 <= at < len(shared["frames"]) for sample in one["samples"] for at in sample)
        assert one["endValue"] - one["startValue"] == sum(one["weights"]) and min(one["weights"]) > 0
    return profiles


def test_speedscope_documents_are_as_its_schema_says() -> None:
    profiles = valid(json.loads(render(ask(TREE, (run(name=HOSTILE),)), "speedscope")))
    assert [(one["name"], one["endValue"]) for one in profiles] == [
        ("device time", 68), ("idle time before launches", flame_of(ask(TREE, (run(),)), "idle").total)]
    pair = valid(json.loads(render(ask(TREE, (run(), run(3))), "speedscope")))
    assert [one["name"] for one in pair][:2] == ["A device time", "B device time"]


def test_the_picture_has_a_box_with_a_tooltip_for_each_frame_and_nothing_recorded_is_markup() -> None:
    made = render(ask(TREE, (run(name=HOSTILE),)), "svg").decode()
    root = ElementTree.fromstring(made)
    titles = [node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 5 and titles[0] == "Net: 61 ns, 89.7%" and not list(root.iter("script"))
    assert "\x1b" not in made
    pair = render(ask(TREE, (run(), run(3))), "svg").decode()
    assert "30 ns → 90 ns" in pair and "#ff9a5c" in pair


def test_only_operators_have_a_flame() -> None:
    for name in ("folded", "speedscope"):
        with pytest.raises(WrongFormat, match="--view ops --tree"):
            render(ask(VIEW, (run(),)), name)
