"""No environment variable and no command line of a recording is in anything made of it: tables, facts, warnings.

Each sample is written once more with a secret where its recorder keeps such things, or might. What neither a table nor
``Info`` has no view, report or query can show.
"""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from protobuf_writer import message

from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import TABLE_NAMES

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
ENV, COMMAND = "API_TOKEN=hunter2", "python train.py --token hunter2"


def kineto(folder: Path) -> Path:
    """Keys of the document, and what Chrome's format calls names and labels of processes."""
    known = json.loads((SAMPLES / "kineto.pt.trace.json").read_text())
    known |= {"environment": {"API_TOKEN": "hunter2"}, "command_line": COMMAND, "argv": COMMAND.split(),
              "metadata": {"command_line": COMMAND, "env": ENV}, "otherData": {"env": ENV, "command": COMMAND}}
    pid = known["traceEvents"][0]["pid"]
    known["traceEvents"] += [
        {"ph": "M", "name": name, "pid": pid, "tid": 0, "ts": 0, "args": {key: COMMAND}}
        for name, key in (("process_name", "name"), ("process_labels", "labels"), ("process_env", "env"),
                          ("process_uptime_seconds", "command"))
    ]
    path = folder / "kineto.pt.trace.json"
    path.write_text(json.dumps(known))
    return path


def nsys_sqlite(folder: Path) -> Path:
    """The tables of the environment, of what was captured, of processes and of the profiler's own messages."""
    path = Path(shutil.copy(SAMPLES / "nsys.sqlite", folder))
    with sqlite3.connect(path) as database:
        database.executescript(f"""
            create table TARGET_INFO_SYSTEM_ENV (globalVid integer, name text, nameEnum integer, value text);
            insert into TARGET_INFO_SYSTEM_ENV values (1, 'EnvVars', 1, '{ENV}'), (1, 'CommandLine', 2, '{COMMAND}');
            insert into META_DATA_CAPTURE values ('LAUNCH:ENVIRONMENT', '{ENV}'), ('LAUNCH:COMMAND', '{COMMAND}');
            insert into META_DATA_EXPORT values ('EXPORT_COMMAND', '{COMMAND}');
            create table PROCESSES (globalPid integer, pid integer, name text);
            insert into PROCESSES values (1, 1, '{COMMAND}');
        """)
    database.close()
    return path


def nsys_parquet(folder: Path) -> Path:
    """The same tables as files."""
    made = Path(shutil.copytree(SAMPLES / "nsys_pqtdir", folder / "pqt"))
    pl.DataFrame({"name": ["EnvVars"], "value": [ENV]}).write_parquet(
        made / "TARGET_INFO_SYSTEM_ENV.parquet", compression="uncompressed")
    pl.DataFrame({"name": ["LAUNCH:COMMAND"], "value": [COMMAND]}).write_parquet(made / "META_DATA_CAPTURE.parquet")
    pl.DataFrame({"globalPid": [1], "pid": [1], "name": [COMMAND]}).write_parquet(made / "PROCESSES.parquet")
    return made


def _perfetto() -> bytes:
    words = [(3, word) for word in COMMAND.split()]
    return message([
        (1, [(8, 1), (2, [(1, [(1, 4711), (2, 1), *words])])]),  # a tree of processes
        (1, [(8, 1), (60, [(1, 991), (3, [(1, 4712), *((2, word) for _, word in words), (6, COMMAND), (8, ENV)])])]),
        (1, [(8, 1), (43, [(1, [(1, "env"), (2, ENV)]), (1, [(1, "command_line"), (2, COMMAND)])])]),
        (1, [(8, 1), (33, [(24, COMMAND)])]),  # what was configured
    ])


def perfetto(folder: Path) -> Path:
    """Processes with their command lines, and metadata."""
    path = folder / "run.pftrace"
    path.write_bytes((SAMPLES / "perfetto.pftrace").read_bytes() + _perfetto())
    return path


def perfetto_metadata(folder: Path) -> Path:
    """The same for PyTorch's first writer."""
    path = folder / "run.pftrace.gz"
    sample = (SAMPLES / "perfetto_metadata.pftrace.gz").read_bytes()
    path.write_bytes(gzip.compress(gzip.decompress(sample) + _perfetto()))
    return path


def xla(folder: Path) -> Path:
    """A plane of the task's environment, and metadata of the host."""
    names = [(5, [(1, 1), (2, [(1, 1), (2, "command_line")])]), (5, [(1, 2), (2, [(1, 2), (2, "env")])])]
    said = [(6, [(1, 1), (5, COMMAND)]), (6, [(1, 2), (5, ENV)])]
    planes = [(1, [(1, 90), (2, name), *names, *said]) for name in ("Task Environment", "/host:metadata", "/host:CPU")]
    path = folder / "host.xplane.pb"
    path.write_bytes((SAMPLES / "xla_gpu.xplane.pb").read_bytes() + message(planes))
    return path


def ncu_text(folder: Path) -> Path:
    """The line that says what was connected to, and the page of the session."""
    path = folder / "ncu.txt"
    text = (SAMPLES / "ncu_text.txt").read_text()
    head, _, rest = text.partition("\n")
    session = f"  Session\n    Launch Settings\n    Command Line  {COMMAND}\n    Environment   {ENV}\n"
    path.write_text(f"{head}\n==PROF== Command: {COMMAND}\n==WARNING== {ENV}\n{rest}\n{session}")
    return path


def ncu_csv(folder: Path) -> Path:
    """The lines before the table."""
    path = folder / "ncu.csv"
    table = (SAMPLES / "ncu_long.csv").read_text()
    path.write_text(f"==PROF== Command: {COMMAND}\n==PROF== Environment: {ENV}\n{table}")
    return path


def ascend(folder: Path) -> Path:
    """What the profiler says of itself: its variables are there."""
    made = Path(shutil.copytree(SAMPLES / "ascend" / "rank1_ascend_pt", folder / "rank1_ascend_pt"))
    told = {"rank_id": 1, "ENV_VARIABLES": {"API_TOKEN": "hunter2"}, "config": {"common_config": {"cmd": COMMAND}}}
    (made / "profiler_info_1.json").write_text(json.dumps(told))
    (made / "profiler_metadata.json").write_text(json.dumps(told))
    return made


def ascend_database(folder: Path) -> Path:
    """The table of what the profiler knows of itself, in a database."""
    return Path(shutil.copy(SAMPLES / "ascend_pytorch_profiler_1.db", folder))


def memory_snapshot(folder: Path) -> Path:
    """What the user may put beside the allocator's state."""
    known = pickle.loads((SAMPLES / "memory_snapshot.pickle").read_bytes())
    known |= {"user_metadata": ENV, "environment": {"API_TOKEN": "hunter2"}, "argv": COMMAND.split()}
    if isinstance(known.get("allocator_settings"), dict):
        known["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"] = ENV
    path = folder / "memory_snapshot.pickle"
    path.write_bytes(pickle.dumps(known, protocol=4))
    return path


def prometheus(folder: Path) -> Path:
    """Labels an exporter of processes adds, and a comment."""
    text = (SAMPLES / "counters" / "dcgm_exporter.prom").read_text()
    path = folder / "run.prom"
    path.write_text(text.replace('gpu="0",', f'gpu="0",cmdline="{COMMAND}",env="{ENV}",') + f"# {COMMAND}\n")
    return path


def counters_csv(folder: Path) -> Path:
    """Columns of words beside the counters."""
    head, *rows = (SAMPLES / "counters" / "counters_wide.csv").read_text().splitlines()
    path = folder / "counters.csv"
    path.write_text("\n".join((f"{head},cmdline,environment", *(f'{row},"{COMMAND}",{ENV}' for row in rows))) + "\n")
    return path


PLANTED = (kineto, nsys_sqlite, nsys_parquet, perfetto, perfetto_metadata, xla, ncu_text, ncu_csv, ascend,
           ascend_database, memory_snapshot, prometheus, counters_csv)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_no_secret_of_a_recording_is_kept(plant: Callable[[Path], Path], tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    path = plant(tmp_path / "in")
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    written = b"".join(file.read_bytes() for file in files)
    assert b"hunter2" in (gzip.decompress(written) if path.suffix == ".gz" else written), "it is there to be found"
    for trace in open_run(str(path)):
        assert "hunter2" not in repr(trace.info)
        for name in TABLE_NAMES:
            assert "hunter2" not in trace.table(name).collect().write_json(), name
