"""The page of claims: what does not hold, is absent or has changed is said as such."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "samples" / "kernel_table_llm_inference.txt"


@pytest.fixture(scope="module")
def claims() -> Any:
    spec = importlib.util.spec_from_file_location("claims_page", ROOT / "benchmarks" / "claims.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["claims_page"] = module
    spec.loader.exec_module(module)
    return module


def claim(*holds: str, sha: str | None = None) -> dict[str, Any]:
    digest = sha or hashlib.sha256(TABLE.read_bytes()).hexdigest()
    return {"claim": "it has rows", "source": "its author", "verdict": "agree", "files": [TABLE.name],
            "truth": "counted", "origin": [{"path": TABLE.name, "url": "", "sha256": digest}],
            "ask": [{"runs": [0], "view": "kernels", "holds": list(holds), "says": "f'{len(r)} rows'"}]}


def test_the_page_says_what_holds_and_what_does_not(claims, tmp_path) -> None:
    shutil.copy(TABLE, tmp_path)
    (right, wrong) = (claims.outcome(claim(*expressions), [tmp_path], tmp_path / "unpacked") for expressions in (
        ("len(r) > 3", "t['view'] == 'kernels'"), ("len(r) > 3", "nothing", "r[0]['name'] == 'x'")))
    assert (right.held, right.of) == (2, 2) and right.says.endswith(" rows")
    assert (wrong.held, wrong.of) == (1, 3) and "**1 of 3 expectations hold.**" in claims.page([right, wrong])
    assert "Of 2 published results (0 about two runs) 1 are what warplens says" in claims.page([right, wrong])


def test_absent_and_changed_files_are_skipped_and_said(claims, tmp_path) -> None:
    assert claims.outcome(claim("True"), [tmp_path], tmp_path).skipped == "its files are not here"
    shutil.copy(TABLE, tmp_path)
    changed = claims.outcome(claim("True", sha="0" * 64), [tmp_path], tmp_path)
    assert changed.skipped == f"{TABLE.name} is another file than was published"
    assert f"Skipped: it has rows ({changed.skipped})" in claims.page([changed])


def test_every_claim_of_the_project_names_its_files_and_their_hashes() -> None:
    own = json.loads((ROOT / "benchmarks" / "claims" / "claims.json").read_text(encoding="utf-8"))
    assert len(own) >= 20 and sum(len(one["ask"][0]["runs"]) == 2 for one in own) >= 10
    for one in own:
        assert {name.partition("!")[0] for name in one["files"]} == {origin["path"] for origin in one["origin"]}
        assert all(len(origin["sha256"]) == 64 and origin["url"].startswith("https://") for origin in one["origin"])
        assert one["truth"] and one["source"] and all(question["holds"] for question in one["ask"])
