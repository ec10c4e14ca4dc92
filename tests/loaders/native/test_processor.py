"""A load uses the cores it may use, and no more than it was told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warplens.loaders.native import processor


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of 16 cores without limits; the folder of its control group."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    monkeypatch.setattr(processor, "_GROUPS", tmp_path)
    monkeypatch.delenv(processor.SETTING, raising=False)
    return tmp_path


@pytest.mark.parametrize(("text", "count"), [("max 100000", 16), ("400000 100000", 4), ("50000 100000", 1), ("?", 16)])
def test_the_share_of_a_container_counts(machine: Path, text: str, count: int) -> None:
    (machine / "cpu.max").write_text(text)
    assert processor.cores() == count


@pytest.mark.parametrize(("quota", "count"), [(-1, 16), (250_000, 3)])
def test_the_older_control_groups_count_as_well(machine: Path, quota: int, count: int) -> None:
    (machine / "cpu").mkdir()
    (machine / "cpu" / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (machine / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert processor.cores() == count


@pytest.mark.parametrize(("asked", "given"), [("3", 3), ("1", 1), ("0", 1), ("99", 8), ("many", 8), ("", 8)])
def test_the_setting_takes_away_and_never_adds(
    machine: Path, asked: str, given: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(processor.SETTING, asked)
    assert processor.threads(2, 8) == given
