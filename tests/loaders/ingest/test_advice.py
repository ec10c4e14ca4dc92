"""What a refusal says: what the file looks most like and lacks, and something to do that ends in a file that opens."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from warplens.cli.main import main
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.opening import open_run

NEAR = {
    "trace.csv": ("Start (ns),Duration (ns),Foo\n1,2,3\n",
                  "looks most like nsys-stats, but lacks the columns Strm, Name"),
    "metrics.csv": ("Process ID,ID,Kernel\n0,1,k\n",
                    "looks most like ncu, but lacks the columns Kernel Name, Metric Name"),
    "kernels.csv": ("Kind,Agent_Id,Kernel_Name,Begin\nK,1,k,2\n",
                    "looks most like rocprofv3-csv, but lacks the columns Queue_Id, Start_Timestamp, End_Timestamp"),
    "keys.json": ('{"hello": 1, "displayTimeUnit": "ns"}',
                  "looks most like kineto (it has displayTimeUnit), but has no list of traceEvents"),
    "other.json": ('{"a": 1, "b": {"c": 2}}', "kineto, the nearest format, needs traceEvents, and this has a, b"),
}


@pytest.mark.parametrize("name", NEAR)
def test_a_file_nobody_claims_is_told_what_it_is_nearest_to(name: str, tmp_path: Path) -> None:
    text, said = NEAR[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(Unreadable) as refused:
        open_run(str(tmp_path / name), use_cache=False)
    assert said in refused.value.reason and "warplens formats" in refused.value.advice


@pytest.mark.parametrize(("name", "table"), [
    ("ascend_pytorch_profiler_0.db", "TASK"), ("msprof_20260302.db", "TASK"), ("renamed.db", "COMPUTE_TASK_INFO"),
])
def test_the_database_of_ascends_profiler_leads_to_its_tables(name: str, table: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / name) as database:
        database.execute(f"create table {table} (name integer, globalTaskId integer)")
    database.close()
    with pytest.raises(Unreadable, match="database of Ascend's profiler without") as refused:
        open_run(str(tmp_path / name), use_cache=False)
    assert "kernel_details.csv" in refused.value.advice and "export_type='text'" in refused.value.advice


def test_a_folder_that_is_no_run_names_those_under_it_and_each_of_them_opens(samples: Path, tmp_path: Path) -> None:
    for place, name in (("a", "nsys.sqlite"), ("b/deep", "kernel_table_unet_training.txt")):
        (tmp_path / place).mkdir(parents=True)
        shutil.copy(samples / name, tmp_path / place)
    with pytest.raises(Unreadable, match="several formats") as refused:
        open_run(str(tmp_path), use_cache=False)
    named = re.findall(r"[^ ,]+\.(?:sqlite|txt)", refused.value.advice)
    assert len(named) == 2 and all(open_run(name, use_cache=False) for name in named)


def test_a_file_beside_those_a_recording_is_made_of_leads_to_its_folder(samples: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(samples / "ascend", tmp_path / "ascend")) / "rank1_ascend_pt"
    beside = folder / "ASCEND_PROFILER_OUTPUT" / "op_statistic.csv"
    beside.write_text("OP Type,Core Type,Count\nMatMul,AI_CORE,3\n")
    for path in (beside, folder / "profiler_info_1.json"):
        with pytest.raises(Unreadable, match="is a part of the ascend recording") as refused:
            open_run(str(path), use_cache=False)
        assert open_run(refused.value.advice.removeprefix("Open the folder: "), use_cache=False)


def test_recordings_that_are_no_ranks_are_named_with_their_folders(samples: Path, tmp_path: Path) -> None:
    for place in ("x", "y"):
        (tmp_path / place).mkdir()
        shutil.copy(samples / "kernel_table_unet_training.txt", tmp_path / place / "same.txt")
    with pytest.raises(Unreadable, match="not the ranks of one job") as refused:
        open_run(str(tmp_path), use_cache=False)
    assert f"{tmp_path}/x/same.txt, {tmp_path}/y/same.txt" in refused.value.advice


def test_doctor_says_what_was_found_dropped_and_assumed(samples: Path, tmp_path: Path, capsys) -> None:
    assert main(["doctor", str(samples / "ncu_long.csv"), "--no-cache"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "format ncu: Nsight Compute" in said and "kernels 5 rows; never recorded: start_ns, lane, rank" in said
    assert "not in it host, metrics" in said and "their sum is not wall time" in said and "nothing was wrong" in said
    cut = tmp_path / "cut.csv"
    cut.write_text("Start (ns),Duration (ns),Strm,Name\n1,2,7,k\n3,x,7,k\n")
    assert main(["doctor", str(cut), "--no-cache"]) == 0
    assert "1 value of the report (Duration (ns)) could not be read: no number" in capsys.readouterr().out
    assert main(["doctor", str(tmp_path / "none.csv"), "--no-cache"]) == 3


def test_doctor_counts_the_events_that_no_table_has_a_place_for(tmp_path: Path, capsys) -> None:
    event = {"ph": "X", "ts": 1, "dur": 2, "pid": 0, "tid": 7, "args": {"stream": 7, "device": 0}}
    mark = {"ph": "i", "ts": 1, "pid": 0, "tid": 7, "name": "mark"}
    events = [
        {**event, "cat": "kernel", "name": "k"}, {**event, "cat": "gpu_user_annotation", "name": "step"}, mark, mark]
    (tmp_path / "run.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    assert main(["doctor", str(tmp_path / "run.json"), "--no-cache"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "left out repeats of other events (annotations on GPU lanes, spans): 1, instants: 2 " in said


def test_what_a_recorder_writes_about_itself_and_repeats_is_nothing_wrong(tmp_path: Path, capsys) -> None:
    event = {"ph": "X", "ts": 1, "dur": 2, "pid": 0, "tid": 7, "args": {"stream": 7, "device": 0, "correlation": 3}}
    own = {"ph": "i", "s": "g", "ts": 1, "pid": "", "tid": 7}
    events = [
        {**event, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1}, {**event, "cat": "kernel", "name": "k"},
        {**event, "cat": "user_annotation", "name": "step", "tid": 1},
        {**event, "cat": "gpu_user_annotation", "name": "step"},
        {**event, "cat": "Trace", "name": "PyTorch Profiler (0)"},
        {**own, "name": "Iteration Start: PyTorch Profiler"}, {**own, "name": "Record Window End"}]
    (tmp_path / "run.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    assert main(["doctor", str(tmp_path / "run.json"), "--no-cache"]) == 0
    said = capsys.readouterr().out
    assert "nothing was wrong" in said and "gpu_user_annotation 1 rows not read" in said
    assert "Trace" not in said.partition("tables")[2].partition("left out")[0] and "instants" not in said


def test_formats_lists_what_each_fills(capsys) -> None:
    assert main(["formats"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"nsys-stats .*\n +fills: kernels host kernel_stats host_stats\n", said)


@pytest.mark.parametrize(("name", "text", "tool"), [
    ("n.csv", '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,us,us,us,\n', "nvprof"),
    ("l.txt", "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5c3a9f10)\n", "nvidia-smi"),
    ("q.csv", "0, NVIDIA H100 80GB HBM3, 5 %, 71.5 W\n", "nvidia-smi"),
    ("code.json", '{"code": [["s_nop 0", 0, 1]], "version": "1.0"}', "thread trace"),
    ("text.txt", 'CudaEvent {\n  startNs: 1\n}\n', "Nsight Systems"), ("log.txt", "a:1:1 [0] NCCL INFO x\n", "NCCL"),
    ("d.txt", "8 GPUs found.\n+-----+\n| GPU ID | Device |\n", "dcgmi"), ("plain.csv", "a,b\n1,2\n", "recognises"),
])
def test_a_refusal_names_the_tool_and_pytorch_only_where_it_is_pytorchs(
    name: str, text: str, tool: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(Unreadable) as refused:
        open_run(str(tmp_path / name), use_cache=False)
    assert tool in refused.value.reason and "PyTorch" not in refused.value.reason + refused.value.advice
