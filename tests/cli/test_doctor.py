"""Doctor says when device time has no operator, and how to record what is missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from warplens.cli.main import main

STEP = "traces/kineto/tracelens/inference/vllm_decode_full/graph_execution.json.gz"


def test_replays_without_their_capture_are_told_with_the_way_to_record_it(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = shutil.copy(data / STEP, tmp_path)
    assert main(["doctor", str(alone)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "operators none for 97% of the device time: 421 launches were replayed by graphs" in said
    assert "record_shapes=True" in said and "--capture" in said


def test_beside_their_capture_they_have_their_operators(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(data / STEP)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "421 of 421 kernels" in said and "operators none" not in said and "421 of 434 by capture" in said


def test_a_table_of_a_conversion_with_other_bytes_is_refused(
    tmp_path: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tables"
    assert main(["convert", str(samples / "kineto.pt.trace.json"), "-o", str(folder)]) == 0
    assert main(["doctor", str(folder)]) == 0
    assert "the bytes of all 3 tables are what convert wrote" in capsys.readouterr().out
    table = folder / "kernels.parquet"
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(content)
    assert main(["doctor", str(folder), "--no-cache"]) == 3
    assert "kernels is not what warplens.json lists: its hash differs" in capsys.readouterr().err
