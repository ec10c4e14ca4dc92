"""XLA profiles: kernels, launches, HLO operators and steps, against the made-up capture and the twin of a real one."""

from __future__ import annotations

import gzip
import importlib
import json
import shutil
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

from warplens.analysis.operators.tree import operators_of
from warplens.loaders import kineto, xla
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.loader import Job
from warplens.loaders.trace import Trace
from warplens.loaders.xla import hlo

CAPTURE = "traces/jax_xplane/tracelens_test_data_jax_te_fused_attn_categorization/934987a2fc2f.xplane.pb"
TWIN = "traces/jax_trace_json/934987a2fc2f.trace_viewer.json.gz"


@pytest.fixture(scope="module")
def make() -> ModuleType:
    return importlib.import_module("make_xla")


def load(path: Path, folder: Path) -> Trace:
    (trace,) = xla.LOADER.load(Job(path, folder))
    return trace


def rows(frame: pl.LazyFrame, *columns: str) -> list[tuple[object, ...]]:
    return frame.select(columns).collect().rows()


def twin_events(data: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress((data / TWIN).read_bytes()))["traceEvents"]
    return found


def totals(trace: Trace) -> dict[tuple[object, ...], tuple[int, int]]:
    by = trace.kernels.group_by("name", "kind", "device", "stream").agg(pl.len(), pl.col("dur_ns").sum()).collect()
    return {row[:4]: row[4:] for row in by.rows()}


def test_samples_are_what_the_script_makes(samples: Path, make: ModuleType, tmp_path: Path) -> None:
    make.main(tmp_path)
    for name in ("xla_gpu.xplane.pb", "xla_tpu.xplane.pb"):
        assert (samples / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_a_real_capture_has_the_kernels_of_its_other_export(data: Path, tmp_path: Path) -> None:
    (tmp_path / "twin").mkdir()
    (twin,) = kineto.LOADER.load(Job(data / TWIN, tmp_path / "twin"))
    trace = load(data / CAPTURE, tmp_path)
    assert totals(trace) == totals(twin) and trace.kernels.collect().height == 150
    events = twin_events(data)
    slices = Counter(e["name"] for e in events if e.get("ph") == "X" and e["pid"] == 701)
    found = Counter(name for name, dur in rows(trace.host, "name", "dur_ns") if dur)
    assert found == slices


def test_kernels_of_a_real_capture_lead_to_their_hlo_ops(data: Path) -> None:
    (trace,) = open_run(str(data / CAPTURE), use_cache=False)
    found = operators_of(trace)
    assert found is not None and found.unclaimed_ns == 0
    wanted = {event["args"]["hlo_op"] for event in twin_events(data)
              if event.get("ph") == "X" and event["pid"] == 1 and event["tid"] == 1}  # fmt: skip
    own = found.frame.filter(pl.col("device_self_ns") > 0)["name"].cast(pl.String).to_list()
    assert set(own) == wanted
    assert "jit_loss_fn:XLA GPU module" in found.frame["name"].cast(pl.String).to_list()


def test_launches_ops_and_modules_of_a_gpu(samples: Path) -> None:
    (trace,) = open_run(str(samples / "xla_gpu.xplane.pb"), use_cache=False)
    first = rows(trace.kernels, "name", "kind", "device", "stream", "grid", "block", "registers", "shared_bytes")[0]
    assert first == ("gemm_fusion_dot_3", "kernel", "GPU 0", 14, "32,8,1", "128,1,1", 64, 4096)
    copies = trace.kernels.filter(pl.col("kind").cast(pl.String) == "memcpy")
    assert rows(copies, "stream", "bytes") == [(18, 1 << 20)] * 4
    operators = operators_of(trace)
    assert operators is not None and operators.unclaimed_ns == 0
    module = operators.frame.filter(pl.col("name").cast(pl.String) == "jit_step:XLA GPU module")
    assert module["calls"].to_list() == [4] and module["device_total_ns"].item() > 0
    assert rows(trace.cycles, "cycle", "label", "source")[1] == (1, "train 1", "recorded")
    assert trace.info.epoch_ns is not None and trace.info.epoch_ns > 1_760_000_000_000_000_000


def test_steps_ops_and_loops_of_a_tpu(samples: Path, tmp_path: Path) -> None:
    trace = load(samples / "xla_tpu.xplane.pb", tmp_path)
    assert [device.id for device in trace.info.devices] == ["TPU 0", "TPU 1"]
    names = {name for name, *_ in rows(trace.kernels, "name")}
    assert names == {"fusion.1", "convolution.2", "all-reduce.3", "copy.4"}
    assert trace.info.facts["ignored"]["loops and branches around other ops"] == 6
    collectives = trace.kernels.filter(pl.col("kind").cast(pl.String) == "collective")
    assert {name for name, *_ in rows(collectives, "name")} == {"all-reduce.3"}
    assert [cycle for cycle, *_ in rows(trace.cycles, "cycle")] == [40, 41, 42]
    ends = trace.kernels.group_by("device").agg((pl.col("start_ns") + pl.col("dur_ns")).max()).collect()
    assert ends.height == 2


@pytest.mark.parametrize("name", ["xla_gpu.xplane.pb", "xla_gpu.xplane.pb.gz"])
def test_a_compressed_profile_is_the_same(samples: Path, tmp_path: Path, name: str) -> None:
    source = (samples / "xla_gpu.xplane.pb").read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(source) if name.endswith(".gz") else source)
    (tmp_path / "plain").mkdir()
    assert totals(load(tmp_path / name, tmp_path)) == totals(load(samples / "xla_gpu.xplane.pb", tmp_path / "plain"))


def test_all_statistics_of_an_event_are_read_again(samples: Path, tmp_path: Path) -> None:
    path = samples / "xla_gpu.xplane.pb"
    ((offset, name),) = rows(load(path, tmp_path).kernels.head(1), "offset", "name")
    said = xla.LOADER.arguments(path, offset, name)
    assert said["hlo_op"] == "gemm_fusion_dot.3" and said["hlo_module"] == "jit_step" and said["correlation_id"] == 102
    with pytest.raises(ValueError):
        xla.LOADER.arguments(path, offset, "another")


def test_the_hosts_of_a_run_are_its_ranks(samples: Path, tmp_path: Path) -> None:
    for host in ("worker-a", "worker-b"):
        shutil.copy(samples / "xla_gpu.xplane.pb", tmp_path / f"{host}.xplane.pb")
        (tmp_path / f"{host}.trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents": [{"ph": "X", "pid": 1}]}'))
    (trace,) = open_run(str(tmp_path), use_cache=False)
    assert trace.info.format == "xla" and trace.info.ranks == (0, 1)
    assert trace.kernels.group_by("rank").len().sort("rank").collect().rows() == [(0, 20), (1, 20)]


def test_of_a_log_folder_the_newest_session_is_opened(samples: Path, tmp_path: Path) -> None:
    """Each time has a folder of its own, the same profile in up to three formats; two were ranks 23 and 44 of a job."""
    for time in ("2026_11_26_12_23_18", "2026_11_26_12_44_18"):
        session = tmp_path / "plugins" / "profile" / time
        session.mkdir(parents=True)
        shutil.copy(samples / "xla_gpu.xplane.pb", session / "vm.xplane.pb")
        for name in ("vm.trace.json.gz", "perfetto_trace.json.gz"):
            (session / name).write_bytes(gzip.compress(b'{"traceEvents": [{"ph": "X", "pid": 1}]}'))
    for folder in (tmp_path, tmp_path / "plugins", session.parent):
        (trace,) = open_run(str(folder), use_cache=False)
        assert trace.info.format == "xla" and trace.info.source == str(session / "vm.xplane.pb")
        assert trace.info.warnings[-1].startswith("2026_11_26_12_44_18 is the newest of 2 sessions")
    (one,) = open_run(str(session), use_cache=False)
    assert one.info.warnings == ()


def test_a_profile_a_text_tool_went_over_is_refused_with_the_reason(data: Path, tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="a text tool replaced bytes") as caught:
        load(data / "traces/malformed/tpu_inference_2.utf8-mangled.xplane.pb", tmp_path)
    assert "binary mode" in caught.value.advice


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9, 0.99])
def test_a_profile_that_was_cut_off_shows_what_there_is(samples: Path, tmp_path: Path, keep: float) -> None:
    source = (samples / "xla_tpu.xplane.pb").read_bytes()
    path = tmp_path / "cut.xplane.pb"
    path.write_bytes(source[: int(len(source) * keep)])
    trace = load(path, tmp_path)
    assert trace.has("kernels") and "truncated" in " ".join(trace.info.warnings)
    assert trace.info.coverage is not None and trace.info.coverage < 1


def test_a_profile_without_events_is_refused(make: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "empty.xplane.pb"
    path.write_bytes(make.message([(1, make.Plane(1, "/host:CPU").written())]))
    with pytest.raises(Unreadable, match="without events"):
        load(path, tmp_path)


def test_more_names_than_the_limit_are_refused_with_the_option_that_raises_it(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPLENS_LIMITS", "names=5")
    with pytest.raises(Unreadable, match="different names") as refused:
        xla.LOADER.load(Job(samples / "xla_gpu.xplane.pb", tmp_path))
    assert "--limit names=" in refused.value.advice


def test_lines_that_are_not_read_are_listed(samples: Path) -> None:
    (trace,) = open_run(str(samples / "xla_gpu.xplane.pb"), use_cache=False)
    assert ("/device:GPU:0 XLA Modules", 1, False) in map(tuple, trace.info.facts["tables"])
    assert ("/device:GPU:0 Stream #14(Compute)", 16, True) in map(tuple, trace.info.facts["tables"])


def instruction(name: str, opcode: str, number: int, sides: list[int], *more: tuple[int, Any]) -> tuple[int, Any]:
    """An instruction of float32 with these dimensions."""
    shape = [(2, 11), *((3, side) for side in sides)]
    return 2, [(1, name), (2, opcode), (3, shape), (35, number), *more]


def test_work_of_hlo_is_that_of_its_products_and_unknown_where_nothing_says_it() -> None:
    message = importlib.import_module("protobuf_writer").message
    backend = '{"gemm_backend_config": {"dot_dimension_numbers": {"lhs_contracting_dimensions": ["1"]}}}'
    with_workspace = [(2, 13), (4, [(2, 11), (3, 8), (3, 4)]), (4, [(2, 3), (3, 999)])]
    operands = [(36, 1), (36, 2)]
    window, dims = (15, [(1, [(1, 3)]), (1, [(1, 3)])]), (16, [(3, 1)])
    works = hlo._module(message([(1, "jit_f"), (3, [
        (5, 1), instruction("a", "parameter", 1, [8, 16]), instruction("b", "parameter", 2, [16, 4]),
        instruction("k", "parameter", 3, [6, 5, 3, 3]),
        instruction("dot.1", "dot", 4, [8, 4], *operands, (30, [(1, 1)])),
        instruction("add.1", "add", 5, [8, 4], (36, 4), (36, 4)),
        (2, [(1, "product"), (2, "custom-call"), (3, with_workspace), (28, "__cublas$gemm"), (35, 6), *operands,
             (43, backend)]),
        instruction("attention", "custom-call", 7, [8, 4], *operands, (28, "fmha")),
        instruction("conv", "convolution", 8, [2, 6, 7, 7], (36, 1), (36, 3), window, dims),
        instruction("loop", "while", 9, [8], (38, 1)),
    ])]))
    assert {op: (work.flops, work.bytes) for (_, op), work in works.items()} == {
        "dot.1": (2 * 8 * 4 * 16, 4 * (128 + 64 + 32)), "add.1": (0, 4 * 96),
        "product": (2 * 8 * 4 * 16, 4 * (128 + 64 + 32)), "attention": (None, None),
        "conv": (2 * 2 * 6 * 49 * 9 * 5, 4 * (128 + 270 + 588)), "loop": (None, None),
    }


def test_an_event_whose_time_is_out_of_range_stays_as_a_row_without_it(tmp_path: Path, make: ModuleType) -> None:
    far = 2**62 // 1000 + 5
    events = [("k1", 1000, 5000, {}), ("k2", 9000, far, {}), ("k3", far, 3, {}), ("k4", 9500, -3000, {})]
    device = make.Plane(1, "/device:GPU:0")
    device.line(14, "Stream #14(Compute)", 3_000_000, events)
    path = tmp_path / "far.xplane.pb"
    path.write_bytes(importlib.import_module("protobuf_writer").message([(1, device.written())]))
    for _ in range(2):  # as loaded, and from the cache
        (trace,) = open_run(path)
        rows = trace.kernels.select(pl.col("name").cast(pl.String), "start_ns", "dur_ns").collect().rows()
        assert rows == [("k1", 0, 5000), ("k2", 8000, None), ("k4", 8500, None), ("k3", None, None)]
        assert trace.info.warnings[:2] == (
            "2 values of XEvent (dur, ts) could not be read: out of range",
            "1 value of XEvent (dur) could not be read: ends before it starts")


def test_the_roofline_of_a_capture_is_per_execution_of_its_ops(data: Path) -> None:
    from warplens.analysis.work.compiled import compiled_rows

    (trace,) = open_run(data / CAPTURE)
    rows = compiled_rows(trace)
    assert set(rows["calls"]) == {5}  # the fused attention launches five kernels in each
    assert int((rows["flops"] * rows["calls"]).sum()) == 5 * 6 * 103_079_215_104
    products = rows.filter(pl.col("flops") > 0)
    assert set(products["dtype"]) == {"bf16"} and set(products["bound"]) == {"compute"}
    # 256 units, 288 GB, 2,400 MHz: a MI355X, 2,516.6 TFLOP/s of bf16
    assert set(products["least_ns"]) == {round(5 * 103_079_215_104 / 2.5166e15 * 1e9)}
    unknown = rows.filter(pl.col("flops").is_null())
    assert unknown.height == 4 and unknown.select("bound", "least_ns", "lost_ns").null_count().row(0) == (4, 4, 4)


def test_scopes_of_the_source_are_in_the_tree_of_ops(data: Path) -> None:
    from warplens.analysis.operators.call_paths import call_paths
    from warplens.analysis.operators.hlo_scopes import scopes_in, with_scopes

    (trace,) = open_run(data / CAPTURE)
    plain = call_paths(trace)
    assert plain is not None
    tree = with_scopes(trace, plain)
    of = {row["name"]: row for row in tree.to_dicts()}
    assert of["gemm_fusion_dot.7"]["parent"].endswith("transpose(jvp(bsd,de->bse))")
    for column in ("device_self_ns", "host_self_ns"):
        assert tree[column].sum() == plain[column].sum()
    totals = {row["path"]: row["device_total_ns"] for row in tree.to_dicts()}
    for row in tree.filter(pl.col("kind") == "module").to_dicts():
        assert row["device_total_ns"] == sum(
            totals[one["path"]] for one in tree.filter(pl.col("parent") == row["path"]).to_dicts())
    assert set(tree["parent"].drop_nulls()) <= set(tree["path"])
    assert scopes_in("jit(f)/layer_0/while/body/dot_general") == ["layer_0", "while", "body"]
    assert scopes_in("jit(f)/transpose(jvp(a/b))/add") == ["transpose(jvp(a/b))"] and scopes_in("add") == []
