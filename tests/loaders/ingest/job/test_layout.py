"""Which files are the windows of one process, by the names that profilers and serving engines give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.loaders.ingest.rank_names import recordings
from warplens.loaders.ingest.ranks import DRIVER


def groups(*names: str) -> list[list[str]]:
    return [[file.name for file in group] for group in recordings([Path("job") / name for name in names])]


@pytest.mark.parametrize(
    ("names", "count"),
    [
        # torch.profiler.tensorboard_trace_handler: host_pid.time
        (["n0_71.1700000000111.pt.trace.json", "n0_72.1700000000112.pt.trace.json"], 2),
        (["n0_71.1700000000111.pt.trace.json", "n0_71.1700000009111.pt.trace.json"], 1),
        # SGLang: time-TP-rank, by stage two of each
        (["1754000000.25-TP-0.trace.json.gz", "1754000000.25-TP-1.trace.json.gz"], 2),
        (["1754000000.25-TP-0-DECODE.trace.json.gz", "1754000000.25-TP-0-EXTEND.trace.json.gz",
          "1754000000.25-TP-1-DECODE.trace.json.gz", "1754000000.25-TP-1-EXTEND.trace.json.gz"], 2),
        # vLLM: a rank in the name, and the frontend beside
        (["dp0_pp0_tp0_rank0.1754000000123.pt.trace.json.gz", "dp0_pp0_tp1_rank1.1754000000124.pt.trace.json.gz",
          "host_99.async_llm.1754000000125.pt.trace.json.gz"], 3),
        (["rank0.json", "rank1.json", "rank10.json"], 3),
        # a step in the name, or in the folder
        (["worker0_step_12.1700000000111.json", "worker0_step_24.1700000009111.json", "worker1_step_12.json"], 2),
        (["iteration_10/rank0_trace.json", "iteration_20/rank0_trace.json", "iteration_10/rank1_trace.json"], 2),
    ],
)
def test_windows_go_together_and_ranks_apart(names: list[str], count: int) -> None:
    assert len(groups(*names)) == count


def test_the_same_name_in_another_folder_is_another_rank() -> None:
    found = recordings([Path("node0/t.1700000000111.json"), Path("node1/t.1700000000222.json")])
    assert len(found) == 2


@pytest.mark.parametrize(
    ("name", "helper"),
    [("host_99.async_llm.1754.pt.trace.json", True), ("EngineCore_DP0.json", True), ("tokenizer_manager.json", True),
     ("rank0.pt.trace.json", False), ("1754000000-TP-0-DECODE.trace.json", False)],
)
def test_processes_that_drive_ranks_are_told_by_their_names(name: str, helper: bool) -> None:
    assert bool(DRIVER.search(name)) is helper
