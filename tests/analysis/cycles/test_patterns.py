"""Finding the rhythm of a launch sequence: the iteration, not the layer; and nothing where nothing repeats."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import kernel, run_of

from warplens.analysis.contract.options import Options
from warplens.analysis.cycles import patterns
from warplens.analysis.cycles.detection import cycles_of
from warplens.analysis.cycles.patterns import find_patterns
from warplens.analysis.query.ask import ask
from warplens.analysis.views.cycles import VIEW

LAYER = list(range(10, 25))
STEP = [1, 2, 3, *LAYER * 40, 4, 5, 6, 7, 8]


def found(sequence: list[int]) -> list[tuple[int, int, int, int]]:
    """(repetitions, launches each, first launch, end) of every pattern."""
    return [
        (len(p.bounds), p.period, p.bounds[0][0], p.bounds[-1][1]) for p in find_patterns(np.array(sequence))
    ]


def test_an_iteration_of_many_layers_is_found_as_the_iteration() -> None:
    assert found(STEP * 30) == [(30, 608, 0, 30 * 608)]
    assert found(STEP * 3) == [(3, 608, 0, 3 * 608)]


def test_one_iteration_alone_is_seen_as_its_layers() -> None:
    assert found([1, 2, 3, *LAYER * 24, 4, 5]) == [(24, 15, 3, 363)]


def test_what_comes_before_and_after_the_rhythm_stays_outside() -> None:
    generator = np.random.default_rng(7)
    before, after = (generator.integers(100, 400, size).tolist() for size in (300, 200))
    assert found([*before, *STEP * 20, *after]) == [(20, 608, 300, 300 + 20 * 608)]


def test_a_lost_or_an_extra_launch_now_and_then_hides_nothing() -> None:
    generator = np.random.default_rng(1)
    sequence: list[int] = []
    for code in STEP * 30:
        chance = generator.random()
        sequence += [] if chance < 0.01 else [code, 99] if chance > 0.99 else [code]
    (count, period, _, _), = found(sequence)
    assert (count, round(period, -1)) == (30, 610)


def test_forward_and_backward_layers_are_two_rhythms() -> None:
    forward, backward = list(range(10, 30)), list(range(40, 75))
    assert found([1, 2, *forward * 12, 3, 4, *backward * 12, *[5] * 40]) == [(12, 20, 2, 242), (12, 35, 244, 664)]


def test_a_prefill_among_decodes_is_one_of_the_iterations() -> None:
    prefill = [code + 50 if code >= 10 else code for code in STEP]
    assert found([*prefill, *STEP * 20, *prefill, *STEP * 20]) == [(42, 608, 0, 42 * 608)]


@pytest.mark.parametrize("sequence", [
    [1] * 500, [1, 2] * 500, np.random.default_rng(3).integers(0, 50, 5000).tolist(),
    np.random.default_rng(3).integers(0, 4, 5000).tolist(), list(range(1000)), [1, 2, 3], [],
], ids=["constant", "alternating", "random of 50", "random of 4", "all different", "short", "empty"])
def test_where_nothing_repeats_nothing_is_found(sequence: list[int]) -> None:
    assert found(sequence) == []


@given(
    layer=st.lists(st.integers(0, 9), min_size=5, max_size=30), repeats=st.integers(3, 12),
    noise=st.lists(st.integers(20, 90), max_size=20, unique=True),
)
def test_repetitions_never_overlap_and_stay_inside(layer: list[int], repeats: int, noise: list[int]) -> None:
    sequence = [*noise, *layer * repeats, *noise[::-1]]
    bounds = [bound for pattern in find_patterns(np.array(sequence)) for bound in pattern.bounds]
    assert all(first < stop <= len(sequence) for first, stop in bounds)
    assert all(stop <= following for (_, stop), (following, _) in pairwise(bounds))


def launches(names: list[str], timed: bool) -> list[dict[str, object]]:
    return [kernel(i, 10 * i if timed else None, 7, name, stream=7) for i, name in enumerate(names)]


def test_cycles_without_times_are_runs_of_launches() -> None:
    names = ["embed", *["norm", "gemm", "attention", "gemm", "gelu"] * 6, "head"]
    run = run_of(kernels=launches(names, timed=False))
    rows = cycles_of(run, Options()).select("start_ns", "dur_ns", "first_index", "last_index", "source").collect()
    assert rows.rows()[:2] == [(None, 35, 1, 5, "pattern"), (None, 35, 6, 10, "pattern")]
    assert rows.height == 6


def test_cycles_with_times_last_until_the_next_begins() -> None:
    run = run_of(kernels=launches(["norm", "gemm", "attention", "gemm", "gelu"] * 6, timed=True))
    assert cycles_of(run, Options()).collect()["dur_ns"].to_list() == [50, 50, 50, 50, 50, 47]


def test_a_few_like_launches_in_a_long_run_are_no_cycles() -> None:
    names = ["norm", "gemm", "attention", "gemm", "gelu"] * 4 + [f"k{i}" for i in range(60)]
    assert len(ask(VIEW, (run_of(kernels=launches(names, timed=False)),))) == 0


def test_prefill_and_decode_are_told_by_their_attention_kernels() -> None:
    def step(attention: str) -> list[str]:
        return ["embed", *["norm", "qkv", attention, "gate", "down"] * 5, "sample"]

    prefill, decode = step("BatchPrefillWithPagedKVCache"), step("BatchDecodeWithPagedKVCache")
    prefill[3] = decode[3]  # one layer of the chunk decodes
    run = run_of(kernels=launches([*prefill, *decode * 8, *prefill, *decode * 8], timed=True))
    kinds = cycles_of(run, Options()).collect()["kind"].cast(str).to_list()
    assert (len(kinds), kinds.count("prefill"), kinds[0], kinds[1]) == (18, 2, "prefill", "decode")


@pytest.mark.parametrize(("name", "cycles"), [
    ("llm_inference", {"40 launches": 24}), ("bert_training", {"38 launches": 12, "90 launches": 12}),
])
def test_the_layers_of_the_kernel_tables(data: Path, name: str, cycles: dict[str, int]) -> None:
    from warplens.loaders.ingest.opening import open_run

    run, = open_run(str(data / "seeds" / f"kernel_table_{name}.txt"), use_cache=False)
    labels = cycles_of(run, Options()).collect()["label"].cast(str).to_list()
    assert {label: labels.count(label) for label in labels} == cycles


@pytest.mark.parametrize("name", [
    "hta/nccl_parser_config/nccl_data.json.gz",
    "tb_plugin/samples/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz",
])
def test_the_rhythm_of_the_launches_is_that_of_the_recorded_steps(data: Path, name: str) -> None:
    from warplens.loaders import schema
    from warplens.loaders.ingest.opening import open_run

    run, = open_run(str(data / "traces" / "kineto" / name), use_cache=False)
    told = cycles_of(run, Options()).collect()
    blind = cycles_of(run.with_tables(cycles=schema.empty("cycles"), host=schema.empty("host")), Options()).collect()
    assert (told["source"].unique().to_list(), blind["source"].unique().to_list()) == (["recorded"], ["pattern"])
    assert blind.height == told.height
    assert blind["dur_ns"].mean() == pytest.approx(told["dur_ns"].mean(), rel=0.06)


def serving(attention: str, *work: int) -> list[dict[str, object]]:
    """Steps of a serving engine with the same kernels, whose attention takes that long in each step."""
    rows, at = [], 0
    for spent in work:
        for name in ["embed", *["norm", "rotary_embedding", attention, "gate", "down"] * 4, "sample"]:
            dur = spent if name == attention else 5
            rows.append(kernel(len(rows), at, dur, name, stream=7))
            at += dur + 1
    return rows


def test_where_one_kernel_serves_both_the_prefill_is_told_by_its_time() -> None:
    run = run_of(kernels=serving("BatchPrefillWithPagedKVCacheKernel", 900, *[10] * 8, 850, *[11] * 8))
    kinds = cycles_of(run, Options()).collect()["kind"].cast(str).to_list()
    assert [i for i, kind in enumerate(kinds) if kind == "prefill"] == [0, 9] and kinds.count("decode") == 16


def test_a_name_that_says_prefill_proves_nothing_among_equal_steps() -> None:
    run = run_of(kernels=serving("BatchPrefillWithPagedKVCacheKernel", *[10, 11] * 6))
    assert set(cycles_of(run, Options()).collect()["kind"].cast(str)) == {"step"}


def test_the_rhythm_is_the_longest_run_of_like_segments_not_the_last() -> None:
    alike = np.array([True] * 8 + [False] * 9 + [True] * 3)
    assert patterns._stretch(alike, np.zeros(20), np.zeros(20, dtype=bool)) == (0, 8)


def test_a_rhythm_that_was_interrupted_is_still_one() -> None:
    pause = np.random.default_rng(5).integers(100, 200, 900).tolist()
    pattern, = find_patterns(np.array([*STEP * 6, *pause, *STEP * 8]))
    assert (len(pattern.bounds), pattern.period) == (14, 608)


@pytest.mark.parametrize(("other", "alike"), [([0] * 10, True), ([0] * 6 + [1] * 4, False), ([0] * 8 + [1] * 2, True)])
def test_patterns_are_alike_where_at_most_a_quarter_of_their_launches_differ(other: list[int], alike: bool) -> None:
    codes = np.array([*[0] * 30, *other * 3])
    one, two = (patterns.Pattern(tuple((at + 10 * n, at + 10 * n + 10) for n in range(3)), 0.0) for at in (0, 30))
    assert patterns._alike(codes, one, two) == alike
