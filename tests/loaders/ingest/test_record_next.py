"""What ``doctor`` advises to record next is what the recording lacks, and nothing that it has."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    ],
)
def test_options_for_what_is_missing(name: str, lacks: list[str], has: list[str], samples: Path) -> None:
    said = "\n".join(record_next(open_run(str(samples / name), use_cache=False)[0]))
    assert all(option in said for option in lacks), said
    assert not [option for option in has if option in said], said
