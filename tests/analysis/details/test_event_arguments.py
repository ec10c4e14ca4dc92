"""What only the file has of an event: its shapes and stacks, and whose call it was."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.sections import Detail, Event
from warplens.analysis.details.event_arguments import rows_of
from warplens.analysis.details.row_details import details
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.event_arguments import arguments
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace


def slice_(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": tid, "ts": ts, "dur": dur, "args": args}


EVENTS = [
    slice_("user_annotation", "forward", 0, 900),
    slice_("cpu_op", "aten::linear", 10, 200, **{"External id": 1, "Input Dims": [[8, 16], [32, 16]]}),
    slice_("cpu_op", "aten::mm", 20, 100, **{"External id": 2, "Input Dims": [[8, 16], [16, 32]],
                                             "Call stack": "a.py(1): f;b.py(2): \x1b[31mg"}),
    slice_("cpu_op", "aten::mm", 400, 50, **{"External id": 5, "Input Dims": [[1]]}),
    slice_("cpu_op", "aten::other", 20, 100, tid=2, **{"External id": 3}),
    slice_("cuda_runtime", "cudaLaunchKernel", 30, 9, **{"External id": 2, "correlation": 70}),
    slice_("kernel", "gemm", 60, 50, tid=7, **{"External id": 2, "correlation": 70, "device": 0, "stream": 7,
                                               "warps per SM": 1.5}),
]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Trace:
    (tmp_path / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": EVENTS}))
    return open_run(str(tmp_path / "t.json"), use_cache=False)[0]


def asked(run: Trace, name: str, row: int = 0) -> Detail:
    one = view("kernels" if name == "overview" else name)  # whose rows are the list of the overview
    return details(one, ask(one, (run,), Options()), row, (run,), Options())


def read(run: Trace, event: Event) -> dict[str, Any]:
    return arguments(run.info, event.rank, event.offset, event.name)


def test_a_launch_tells_its_arguments_and_those_of_the_operator_it_belongs_to(run: Trace) -> None:
    sections = {section.title: section for section in asked(run, "launches").sections}
    assert [row[0] for row in sections["Launched by"].rows] == ["cudaLaunchKernel"]
    assert [row[0] for row in sections["Around it, outermost first"].rows] == ["forward", "aten::linear", "aten::mm"]
    operator, own = sections["Arguments of aten::mm"].event, sections["Arguments"].event
    assert operator is not None and read(run, operator)["Input Dims"] == [[8, 16], [16, 32]]
    assert own is not None and read(run, own)["warps per SM"] == 1.5


@pytest.mark.parametrize("name", ["kernels", "overview"])
def test_a_kernel_tells_who_launched_the_longest(run: Trace, name: str) -> None:
    events = [section.event for section in asked(run, name).sections if section.event]
    assert [(event.name, read(run, event)["External id"]) for event in events] == [("aten::mm", 2)]


def test_an_operator_tells_what_its_longest_call_was_given(run: Trace) -> None:
    table = ask(view("ops"), (run,), Options())
    names = [row[0] for row in table.window(0, len(table))]
    detail = details(view("ops"), table, names.index("aten::mm"), (run,), Options())
    calls = next(section for section in detail.sections if section.title == "Longest calls")
    assert [row[3] for row in calls.rows] == ["100.0 µs", "50.00 µs"]
    (event,) = (section.event for section in detail.sections if section.event)
    assert read(run, event)["Input Dims"] == [[8, 16], [16, 32]]


def test_a_stack_has_a_line_for_each_frame_and_nothing_acts() -> None:
    assert rows_of({"Call stack": "a.py(1): f;b.py(2): \x1b[31mg", "Input Dims": [[1, 2], []], "n\n": None}) == (
        ("Call stack", "a.py(1): f"), ("", "b.py(2): ␛[31mg"), ("Input Dims", "[[1, 2], []]"), ("n␊", "null"),
    )  # fmt: skip
    assert rows_of({}) == (("none", ""),)


def test_a_changed_file_is_not_taken_for_the_recording(run: Trace) -> None:
    path = Path(run.info.source)
    event = next(s.event for s in asked(run, "launches").sections if s.title == "Arguments")
    assert event is not None
    path.write_text(path.read_text().replace('"gemm"', '"GEMM"'))
    with pytest.raises(Unreadable, match="has changed"):
        read(run, event)
    path.write_text("{}")
    with pytest.raises(Unreadable, match="has changed"):
        read(run, event)
    path.unlink()
    with pytest.raises(Unreadable, match="cannot be read again"):
        read(run, event)
    with pytest.raises(Unreadable, match="format without event arguments"):
        arguments(replace(run.info, format="nsys"), None, 5, "x")


def test_ranks_are_read_from_their_own_files(tmp_path: Path) -> None:
    for rank in (0, 1):
        extra = [slice_("cpu_op", "aten::fill", 1, 1)] * rank
        text = json.dumps({"distributedInfo": {"rank": rank}, "traceEvents": [*extra, *EVENTS]})
        (tmp_path / f"rank{rank}.json.gz").write_bytes(gzip.compress(text.replace("1.5", f"{rank}.25").encode()))
    (run,) = open_run(str(tmp_path), use_cache=False)
    rows = run.kernels.collect().to_dicts()
    assert [row["rank"] for row in rows] == [0, 1]
    seen = [arguments(run.info, row["rank"], row["offset"], row["name"])["warps per SM"] for row in rows]
    assert seen == [0.25, 1.25]
    shutil.rmtree(tmp_path)


def test_an_operator_tells_what_its_longest_call_was_part_of_and_what_it_called(run: Trace) -> None:
    names = [row["name"] for row in ask(view("ops"), (run,), Options()).frame.to_dicts()]
    sections = {one.title: [row[0] for row in one.rows] for one in asked(run, "ops", names.index("aten::mm")).sections}
    assert sections["Around the longest, outermost first"] == ["forward", "aten::linear"]
    assert sections["Inside the longest call, longest first"] == ["cudaLaunchKernel"]
