"""Flight recorder dumps: who is missing, in which call of which group, who waits; forty jobs and what can go wrong."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from flight_jobs import Call, Job, job

from warplens.analysis.contract.options import Options
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.opening import open_run


def written(folder: Path, dumps: dict[int, Any], as_pickle: bool = False) -> Path:
    for rank, content in dumps.items():
        if as_pickle:
            (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(content, protocol=2))
        else:
            (folder / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(content))
    return folder


def answer(folder: Path) -> tuple[dict[str, Any], str, list[dict[str, Any]], tuple[str, ...]]:
    """facts.hang, the first sentence, the rows and the notes of the ranks of a folder of dumps."""
    (run,) = open_run(str(folder), use_cache=False)
    table = ask(view("ranks"), (run,), Options())
    rows = [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.window(0, 99)]
    return table.facts["hang"], table.summary[0], rows, table.notes


def waiting_rank(job: Job) -> int:
    return next(rank for rank, states in job.run().items() if "started" in states)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("timed", [True, False])
def test_a_rank_that_stops_is_missing_where_the_others_of_its_group_wait(tmp_path, seed: int, timed: bool) -> None:
    hung, draw = job(seed)
    late, stop = draw.randrange(8), draw.randrange(3, 30)
    hung.stops[late] = stop
    call = hung.programs[late][stop]
    number = sum(one.group == call.group for one in hung.programs[late][: stop + 1])
    hang, sentence, rows, _ = answer(written(tmp_path, hung.dumps(timed), as_pickle=seed % 2 == 0))
    members = hung.groups[call.group]
    assert (hang["group"], hang["seq"], hang["name"]) == (call.group, number, call.name)
    assert hang["missing"] == [late] and hang["waiting"] == [rank for rank in members if rank != late]
    assert (hang["mismatch"], hang["no_dump"], hang["frame"]) == (None, False, f"train.py:{call.line}")
    assert sentence.startswith(f"Rank {late} is missing at {call.name} #{number} of group {call.group}; ")
    assert (rows[0]["rank"], rows[0]["state"]) == (late, "missing")


@pytest.mark.parametrize(("kind", "change"), [
    ("name", {"name": "reduce"}), ("size", {"size": 65}), ("dtype", {"dtype": "Float"})])
@pytest.mark.parametrize("seed", range(4))
def test_a_rank_that_calls_something_else_differs(tmp_path, seed: int, kind: str, change: dict[str, Any]) -> None:
    hung, draw = job(seed)
    odd, place = draw.randrange(8), draw.randrange(3, 30)
    hung.programs[odd][place] = hung.programs[odd][place]._replace(**change)
    group = hung.programs[odd][place].group
    number = sum(one.group == group for one in hung.programs[odd][: place + 1])
    hang, sentence, _, _ = answer(written(tmp_path, hung.dumps()))
    assert (hang["mismatch"], hang["differs"], hang["group"], hang["seq"]) == (kind, [odd], group, number)
    assert hang["missing"] == [] and hang["waiting"] == list(hung.groups[group])
    assert sentence.startswith(f"Rank {odd} calls #{number} of group {group}")


@pytest.mark.parametrize("seed", range(4))
def test_two_calls_in_another_order_are_said_as_such(tmp_path, seed: int) -> None:
    hung, draw = job(seed)
    odd, place = draw.randrange(8), draw.randrange(3, 30)
    program, two = hung.programs[odd], [Call("default_pg", "all_reduce", 64), Call("default_pg", "all_reduce", 32)]
    for rank in range(8):
        hung.programs[rank][place : place + 2] = two
    program[place : place + 2] = program[place : place + 2][::-1]
    hang, sentence, _, _ = answer(written(tmp_path, hung.dumps()))
    assert (hang["mismatch"], hang["differs"], hang["group"]) == ("order", [odd], "default_pg")
    assert "in another order" in sentence


@pytest.mark.parametrize("seed", range(4))
def test_ranks_that_wait_in_another_group_are_followed_there(tmp_path, seed: int) -> None:
    hung, draw = job(seed)
    late = draw.randrange(8)
    side = "ep" if late % 2 else "dp"
    for rank in range(8):  # the side group first, then all: the others of the side group are missing in the world
        mine = "ep" if rank % 2 else "dp"
        hung.programs[rank][20:22] = [Call(mine, "all_reduce", 64), Call("default_pg", "broadcast", 32)]
    hung.stops[late] = 20
    hang, sentence, rows, _ = answer(written(tmp_path, hung.dumps()))
    assert (hang["group"], hang["missing"]) == (side, [late])
    assert hang["waiting"] == [rank for rank in hung.groups[side] if rank != late]
    assert "behind, in other groups" in sentence
    assert {row["rank"] for row in rows if row["state"] == "waits"} == set(range(8)) - {late}


@pytest.mark.parametrize("seed", range(4))
def test_three_ranks_that_wait_for_one_another_are_a_ring(tmp_path, seed: int) -> None:
    groups = {"ab": (0, 1), "bc": (1, 2), "ca": (0, 2)}
    before = [Call(group) for group in groups for _ in range(seed)]
    programs = {
        0: [*(call for call in before if call.group != "bc"), Call("ca"), Call("ab")],
        1: [*(call for call in before if call.group != "ca"), Call("ab"), Call("bc")],
        2: [*(call for call in before if call.group != "ab"), Call("bc"), Call("ca")],
    }
    hang, sentence, _, _ = answer(written(tmp_path, Job(groups, programs).dumps()))
    assert [one["group"] for one in hang["ring"]] in (["ab", "ca", "bc"], ["ca", "bc", "ab"], ["bc", "ab", "ca"])
    assert sentence.startswith("The ranks wait for one another in a ring: ")


def test_a_rank_without_a_dump_is_said_apart(tmp_path) -> None:
    hung, _ = job(1)
    hung.stops[3] = 10
    dumps = hung.dumps()
    del dumps[3]
    hang, sentence, rows, notes = answer(written(tmp_path, dumps))
    assert hang["missing"] == [3] and hang["no_dump"] is True
    assert sentence.startswith("Rank 3 has no dump: it may be missing at ")
    assert any("Rank 3 has no dump here" in note for note in notes) and rows[0]["state"] == "no dump"


def test_with_half_of_the_dumps_only_ranks_that_are_there_are_called_missing(tmp_path) -> None:
    hung, _ = job(2)
    hung.stops[2] = 10
    dumps = {rank: one for rank, one in hung.dumps().items() if rank < 4}
    hang, _, _, _ = answer(written(tmp_path, dumps))
    assert (hang["missing"], hang["no_dump"]) == ([2], False)


def test_numbers_that_wrap_go_on(tmp_path) -> None:
    hung, _ = job(3)
    hung.stops[5] = 20
    plain = answer(written(tmp_path, hung.dumps()))[0]
    near = (1 << 32) - 8
    wrapped = answer(written(tmp_path, hung.dumps(first=near)))[0]
    assert wrapped["missing"] == plain["missing"] == [5] and wrapped["waiting"] == plain["waiting"]
    assert wrapped["seq"] == (plain["seq"] + near) % (1 << 32)


def test_a_dump_of_another_job_is_left_out_and_said(tmp_path) -> None:
    hung, _ = job(4)
    hung.stops[6] = 15
    dumps = hung.dumps()
    other, _ = job(5, ranks=4)
    dumps[1] = other.dumps()[1]
    hang, _, _, notes = answer(written(tmp_path, dumps))
    assert 6 in hang["missing"] and any(note.startswith("Rank 1 is of another job") for note in notes)


def test_a_receive_without_its_send_waits_for_the_other_rank(tmp_path) -> None:
    def entry(record: int, name: str, state: str) -> dict[str, Any]:
        return {"record_id": record, "process_group": ["1", "pp"], "is_p2p": True, "p2p_seq_id": record + 1,
                "collective_seq_id": 0, "profiling_name": name, "state": state, "time_discovered_started_ns": 5,
                "time_created_ns": 1_000 + record, "input_sizes": [[4]], "input_dtypes": ["Float"], "frames": []}

    config = {"1": {"name": "1", "desc": "pp", "ranks": "[4, 5]"}}
    dumps = {
        4: {"pg_config": config, "entries": [entry(0, "nccl:send 0->1", "completed")]},
        5: {"pg_config": config, "entries": [
            entry(0, "nccl:recv 1<-0", "completed"), entry(1, "nccl:recv 1<-0", "started")]},
    }
    hang, sentence, _, _ = answer(written(tmp_path, dumps))
    assert (hang["group"], hang["missing"], hang["waiting"]) == ("pp", [4], [5])
    assert sentence.startswith("Rank 4 is missing at recv from rank 4 in group pp; 1 rank waits")


def other_layout(dump: dict[str, Any], kind: str) -> dict[str, Any]:
    """A dump as other versions of PyTorch write it."""
    if kind == "1.5":
        entries = [{"seq_id": one["collective_seq_id"], "id": one["record_id"], **{name: one[name] for name in (
            "process_group", "profiling_name", "time_created_ns", "input_sizes", "state", "frames")}}
            for one in dump["entries"]]
        return {"version": "1.5", "entries": entries}
    if kind == "numbered groups":
        return {**dump, "entries": [{**one, "process_group": [int(one["process_group"][0]), one["process_group"][1]]}
                                    for one in dump["entries"]]}
    return {**dump, "entries": [{**one, "frames": [f"{frame['filename']}:{frame['line']} {frame['name']}"
                                                   for frame in one["frames"]]} for one in dump["entries"]]}


@pytest.mark.parametrize("kind", ["1.5", "numbered groups", "frames as text"])
def test_dumps_of_other_versions_say_the_same(tmp_path, kind: str) -> None:
    hung = Job({"default_pg": (0, 1, 2)}, {rank: [Call("default_pg", line=at) for at in range(9)] for rank in range(3)},
               {1: 5})
    dumps = {rank: other_layout(dump, kind) for rank, dump in hung.dumps().items()}
    hang, _, _, _ = answer(written(tmp_path, dumps))
    assert (hang["seq"], hang["missing"], hang["waiting"], hang["frame"]) == (6, [1], [0, 2], "train.py:5")


def test_dumps_without_calls_say_how_far_each_rank_is(tmp_path) -> None:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}}
    dumps = {rank: {"pg_config": config, "entries": [], "pg_status": {"0": {
        "last_enqueued_collective": far, "last_started_collective": far, "last_completed_collective": 16}}}
        for rank, far in ((0, 17), (1, 16), (2, 17))}
    hang, sentence, rows, _ = answer(written(tmp_path, dumps))
    assert (hang["group"], hang["seq"], hang["missing"], hang["waiting"]) == ("default_pg", 17, [1], [0, 2])
    assert sentence == "Rank 1 is missing at a call #17 of group default_pg; 2 ranks wait."
    assert [(row["rank"], row["state"]) for row in rows] == [(1, "missing"), (0, "waits"), (2, "waits")]


def test_nothing_waits_where_everything_ended(tmp_path) -> None:
    healthy, _ = job(6)
    hang, sentence, _, _ = answer(written(tmp_path, healthy.dumps()))
    assert hang is None and sentence == "Nobody waits: every collective in the dumps has ended."


def test_a_pickle_that_holds_code_is_refused_without_running_it(tmp_path) -> None:
    class Code:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "ran",))

    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps({"pg_config": {}, "entries": [Code()]}, protocol=2))
    with pytest.raises(Unreadable, match="holds code"):
        open_run(str(tmp_path / "nccl_trace_rank_0"), use_cache=False)
    assert not (tmp_path / "ran").exists()


def test_files_of_the_inspector_are_refused_by_name(tmp_path) -> None:
    (tmp_path / "a.json").write_text('{"header": {"id": "1", "rank": 0}, "metadata": '
                                     '{"inspector_output_format_version": "v4.0"}, "coll_perf": {}}')
    with pytest.raises(Unreadable, match="NCCL Inspector"):
        open_run(str(tmp_path / "a.json"), use_cache=False)


def test_the_collectives_of_dumps_are_counted_and_have_no_times(samples: Path, asked) -> None:
    (run,) = open_run(str(samples / "flight_recorder"), use_cache=False)
    rows = asked("collectives", run).frame.to_dicts()
    assert rows and all(row["count"] > 0 and row["total_ns"] is None and row["busbw"] is None for row in rows)
