"""What ``doctor`` advises to record next is what the recording lacks, and nothing that it has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from warplens.loaders.ingest.opening import open_run
from warplens.loaders.ingest.record_next import record_next


@pytest.mark.parametrize(
    ("name", "lacks", "has"),
    [
        ("demo/normal.json.gz", ["record_shapes=True", "profile_memory=True", "enable_cuda_sync_events=True"],
         ["with_stack=True", "nvidia-smi"]),
        ("nsys.sqlite", ["--python-backtrace=cuda"], ["--trace=cuda,nvtx,osrt"]),
        ("rocprof_results.csv", ["--hip-trace"], ["--trace=cuda"]),
        ("ncu_long.csv", [], ["--set full"]),
        ("ascend", [], ["torch.profiler", "nvidia-smi"]),
    ],
)
def test_options_for_what_is_missing(name: str, lacks: list[str], has: list[str], samples: Path) -> None:
    said = "\n".join(record_next(open_run(str(samples / name), use_cache=False)[0]))
    assert all(option in said for option in lacks), said
    assert not [option for option in has if option in said], said


@pytest.mark.parametrize(
    ("word", "said"),
    [("JAX/XLA profiler", "jax.profiler.StepTrace"), ("Ascend PyTorch profiler", "torch_npu.profiler.schedule")],
)
def test_another_profiler_that_writes_kinetos_format_has_its_own_options(
    word: str, said: str, tmp_path: Path
) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 0, "dur": 5, "args": {"device": 0}}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [event]}))
    trace = open_run(str(path), use_cache=False)[0]
    advice = "\n".join(record_next(replace(trace, info=replace(trace.info, tool=word))))
    assert said in advice and "nvidia-smi" not in advice and "torch._C" not in advice
