"""The compiled reader, the plain reader and an independent reading of Kineto JSON give the same cells."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import kept_code
import pytest
from fuzz_kineto import Guarded, check, fuzz
from kineto_reading import accepted, native, read, reference

from warplens.loaders.kineto import LOADER, load
from warplens.loaders.kineto.columns import Strings
from warplens.loaders.kineto.deferred_events import DeferredEvents
from warplens.loaders.kineto.recovery import walk
from warplens.loaders.kineto.scan import SCANNER, blocks
from warplens.loaders.kineto.scan.blocks import BlockScanner
from warplens.loaders.kineto.scan.layout import PAD
from warplens.loaders.kineto.tables import Tables
from warplens.loaders.loader import Job
from warplens.loaders.native import build
from warplens.loaders.native.functions import Native, Objects
from warplens.loaders.native.program import HOST, Program

BLOCKS = (90, 1000, 1 << 20)


def event(**more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2, **more}


EVENTS = [
    event(name='a}, {"ph": "X"', ts=1712195495519689, args={"correlation": 2**63 - 1, "grid": [1, 2, 3]}),
    event(name='\u00e9\\"}],\n', tid="stream 7", args={"stream": "7", "External id": 1, "external id": 2}),
    event(cat="cpu_op", args={"nest": {"correlation": 5, "args": {"stream": 3}, "x": ["}", '{"ph"', {"ts": 1}]}}),
    event(args={"correlation": 2**64 - 1, "bytes": 2**64 - 1, "stream": -1, "device": None}),
    event(ts="123.4567", dur=None, pid="7", tid=None, args=None),
    event(ts=0.9996, name="", args=[1, 2]), event(name="k" * 5000), event(ts=-1.25, args={"correlation": True}),
    event(name=5, cat="cuda_runtime", args={"correlation": "88", "stream": "0x0", "registers per thread": 2**40}),
    event(args={"est. achieved occupancy %": 33.3, "blocks per SM": 9.927016204653041, "graph node id": 1 << 33}),
    event(args={"Collective name": "allreduce", "In msg nelems": 4, "Out msg nelems": 4, "Group size": 2, "Seq": 7}),
    event(args={"dtype": "BFloat16", "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "In msg nelem": 3}),
    event(args={"dtype": 5, "Process Group Name": 12, "Process Group Ranks": [0, 3], "Out msg nelems": 2**64 - 1}),
    event(args={"dtype": None, "Process Group Name": None, "Process Group Ranks": [0, "..."], "Group size": "8"}),
    event(args={"Process Group Ranks": [], "Collective name": ["x"], "Process Group Rank": "[9]", "Seq": -1.0}),
    event(args={"Process Group Ranks": None, "Collective name": '\u00e9"]', "Process Group Names": "no", "seq": 4}),
    {"ph": "s", "id": "0xabc", "ts": 5.5}, {"ph": "C", "name": "c", "ts": 1, "pid": 1, "args": {"v": 1.5}}, {},
    {"ph": "M", "name": "process_name", "pid": 3, "args": {"name": "p"}},
]  # fmt: skip


@pytest.mark.parametrize(("indent", "ascii_only"), [(None, True), (0, False), (2, True), *(
    pytest.param(*one, marks=pytest.mark.deep) for one in ((None, False), (0, True), (1, True), (1, False), (2, False))
)])
def test_layouts(tmp_path: Path, indent: int | None, ascii_only: bool) -> None:
    document = {"note": '"traceEvents": [', "traceEvents": EVENTS * 3, "traceName": "x]}", "z": [{"a": 1}]}
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    for block in BLOCKS:
        assert check(text.encode(), tmp_path, block, None)
        assert check(text.replace("\n", "\r\n").encode(), tmp_path, block, None)


def memory(**more: Any) -> dict[str, Any]:
    args = {"Ev Idx": 1, "Device Type": 1, "Device Id": 2, "Bytes": -512, "Total Allocated": 5 << 30, "Addr": 7 << 44}
    return {"ph": "i", "s": "t", "name": "[memory]", "pid": 9, "tid": 1, "ts": 2.5, "args": {**args, **more}}


INSTANTS = [
    memory(), memory(**{"Total Reserved": 7}), memory(**{"Total Allocated": None}), memory(**{"Device Type": 0}),
    memory(**{"Total Allocated": None, "Bytes": None}), memory(**{"Device Id": -1}), memory(**{"Device Id": "1"}),
    memory(**{"Device Type": False}), memory(**{"Device Type": 0.0}), memory(**{"Bytes": True}), memory(rank=3),
    memory(**{"Total Allocated": 2**63}), memory(**{"Total Allocated": 1e3}), memory(**{"Total Reserved": [1]}),
    memory(**{"Total Reserved": {"a": 1}}), memory(**{"Total Allocated": 10**18}), memory(**{"Bytes": 10**18 - 1}),
    {**memory(), "ph": "I"}, {**memory(), "ph": "R"}, {**memory(), "ph": "X"}, {**memory(), "ph": "X", "cat": "cpu_op"},
    {**memory(), "pid": "9"}, {**memory(), "pid": "nine"}, {**memory(), "pid": None}, {**memory(), "ts": None},
    {**memory(), "ts": "3"}, {**memory(), "args": None}, {**memory(), "args": []}, {**memory(), "name": "[memory]]"},
    {"ph": "i", "name": "[memory]", "ts": 1}, {**memory(), "cat": "cpu_instant_event"},
    memory(Addr=1 << 60), memory(Addr=1 << 63), memory(Addr=-5), memory(Addr="5"), memory(Addr=1e9), memory(Addr=None),
    memory(Bytes=1024), memory(Bytes=0), memory(Bytes=1 << 40), memory(Bytes=1 << 51), {**memory(), "ts": 4e15},
    {**memory(Bytes=512), "tid": "stream 7"}, {**memory(Bytes=512), "tid": None}, {**memory(Bytes=512), "ts": 1e-3},
]


@pytest.mark.parametrize("block", [300, 1500, 1 << 20])
def test_memory_instants(tmp_path: Path, block: int) -> None:
    text = json.dumps(INSTANTS * 2 + EVENTS + INSTANTS[::-1], indent=1)
    for number in ("-0", "007", "1.5e3", "nan", "+1", "1 ", "9" * 18, "9" * 19, "-"):
        text += f', {{"ph": "i", "name": "[memory]", "ts": 1, "args": {{"Bytes": 1, "Bytes": {number}}}}}'
        text += f', {{"ph": "i", "name": "[memory]", "ts": 1, "args": {{"Bytes": {number}, "Bytes": 2}}}}'
    text += ', {"ph": "i", "name": "[mem\\u006fry]", "ts": 8, "args": {"Bytes": 1}}'
    text = text.replace("]\n], {", "]\n, {").replace("\n], {", "\n, {") + "]"
    fast, plain = (read(text.encode(), tmp_path, compiled=compiled, block=block) for compiled in (True, False))
    assert fast.rows() == plain.rows()
    assert len(fast.metrics) > 80 and fast.tally.events == plain.tally.events and len(fast.allocations) > 20


def test_most_memory_instants_need_no_reading_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeferredEvents, "add", lambda *_: pytest.fail("read alone"))
    text = json.dumps([memory(**{"Total Reserved": n}) for n in range(500)])
    found = read(text.encode(), tmp_path, compiled=True, block=4000)
    assert [row[3] for row in found.metrics[1::2]] == [float(n) for n in range(500)]


def test_instants_read_alone_come_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    sample = Tables.sample

    def counted(self: Tables, found: dict[str, Any]) -> None:
        batches.append(len(found["ts_ns"]))
        sample(self, found)

    monkeypatch.setattr(Tables, "sample", counted)
    text = json.dumps([memory(), memory(**{"Total Reserved": 1500.0})] * 500)
    found = read(text.encode(), tmp_path, compiled=True, block=1 << 20)
    assert batches == [len(found.metrics)] == [1500]


def test_a_scanner_that_gets_no_memory_ends_the_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any, **more: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("warplens.loaders.kineto.pipeline.BlockScanner", none)
    with pytest.raises(MemoryError):
        read(json.dumps(EVENTS * 90).encode(), tmp_path, compiled=True, block=500)


@pytest.mark.parametrize(("digit", "behind"), [
    ("0", ""), *(pytest.param(*one, marks=pytest.mark.deep) for one in (("1", "/"), ("5", ":"))), ("9", "\u00b0")])
def test_numbers_of_every_length(tmp_path: Path, digit: str, behind: str) -> None:
    numbers = [("1" + digit * 22)[:length] for length in range(1, 23)]
    fractions = ["", *(f".{digit * length}" for length in range(1, 22)), ".0449", ".0005", ".9995", ".4996"]
    events = [event(args={"correlation": int(number), "stream": -int(number)}) for number in numbers]
    texts = [f"{number}{behind}" for number in numbers]
    pairs = zip(texts, numbers, strict=True)
    events += [event(pid=text, tid=int(number), args={"device": text}) for text, number in pairs]
    plain = json.dumps(events + events)
    times = [f"{number}{fraction}" for number in numbers[:15] for fraction in fractions]
    timed = [f'{{"ph":"X","cat":"kernel","ts":{a},"dur":{b}}}' for a, b in zip(times, reversed(times), strict=True)]
    for block in (500, 1 << 20):
        assert check(plain.encode(), tmp_path, block, None)
        assert check(f"[{', '.join(timed)}]".encode(), tmp_path, block, None)
    for text in timed[::17]:
        check(f"[{text}]".encode(), tmp_path, 1 << 20, Guarded(1))


USUAL = """{
    "ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.500, "dur": 2,
    "args": {
      "stream": 7, "device": 1, "cbid": 3, "correlation": 12, "registers per thread": 64,
      "grid": [1, 2, 3], "est. achieved occupancy %": 50
    }, "id": 4
  }"""


@pytest.mark.parametrize("layout", ["wide", "narrow", "crlf"])
def test_what_usually_comes_next_is_only_a_guess(tmp_path: Path, layout: str, deep: bool) -> None:
    usual = {"wide": USUAL, "narrow": json.dumps(json.loads(USUAL), separators=(",", ":"))}.get(
        layout, USUAL.replace("\n", "\r\n")
    )
    parts = ("", " ", "\n \t", "x", "2", '"', "\\", ",", "{}", "}")
    changes = [*itertools.product(range(1, len(usual)), (0, 1), parts)][:: 1 if deep else 7]  # prime to both lengths
    others = [usual[:at] + new + usual[at + gone :] for at, gone, new in changes]
    others = [text for text in dict.fromkeys(others) if accepted(f"[{text}]".encode())]
    swapped = [
        usual.replace('"stream"', '"ts"').replace('"device"', '"args"').replace('"cbid"', '"name"'),
        usual.replace('"ts"', '"stream"'), usual.replace('"pid"', '"correlation"'), usual.replace('"id"', '"pid"'),
        usual.replace('"grid"', '"args"'), usual.replace('"cat"', '"ph"'), usual.replace('"X"', '"s"'),
        usual.replace('"cbid"', '"External id"'), usual.replace('"cbid"', '"external id"').replace('"id"', '"dur"'),
        usual.replace('"kernel"', '"cpu_op"'), usual.replace('"args"', '"arguments"'), usual.replace("7", '"a, b"'),
    ]  # fmt: skip
    assert len(others) > (400 if deep else 50)
    rng = random.Random(1)
    texts = [text for other in (*others, *swapped) for text in (*rng.choices((usual, other), k=2), other)]
    for block in (1000, 1 << 20):
        assert check(f"[{', '.join(texts)}]".encode(), tmp_path, block, None)


@pytest.mark.parametrize(
    "text",
    [
        "[]", '{"traceEvents":[]}', '{"traceEvents": [{}]}', '[{"ph":"X"}]', "[null, 5, \"a\", [1], {}]",
        '[{"ph":"X","cat":"kernel","ts":1,"ts":2,"name":"a","name":"b","args":{"stream":1},"args":{"device":3}}]',
        '[{"args":{"stream":1,"stream":2},"dur":5,"ts":10,"tid":"x","pid":-1,"ph":"X","cat":"kernel"}]',
        '[{"\\u0070h":"X","cat":"k\\u0065rnel","name":"\\ud83d\\ude00","ts":1e3,"dur":1.5E-3}]',
        '[{"ph":"X","cat":"kernel","ts":9223372036854774.999,"dur":0}, {"ph":"X","cat":"kernel","ts":9e30}]',
        '[{"ph":"X","cat":"kernel","ts":1,"args":{"grid":[ 1 , 2,3 ],"block":[1.50,-2],"stream":7.0,"device":1e0}}]',
        '[{"ph":"X","cat":"kernel","ts":1,"pid":{"a":1},"tid":[7],"name":null,"dur":"2.5","args":{"grid":[]}}]',
        '[{"ph":5,"cat":"kernel","ts":1},{"ph":"XX","cat":"kernel","ts":1},{"ph":"X","cat":7,"ts":2,"name":"n"}]',
        '\ufeff[{"ph":"X","cat":"kernel","ts":1}]', '  [ {"ph" : "X" , "cat" : "kernel" , "ts" : 1 } ] ',
    ],
)  # fmt: skip
def test_what_json_allows(tmp_path: Path, text: str) -> None:
    for block in (7, 64, 1 << 20):
        check(text.encode(), tmp_path, block, Guarded(1))


def three(text: str) -> bytes:
    good = [json.dumps(event(name=name, ts=place)) for place, name in enumerate("abcdefgh")]
    return f"[{', '.join(good[:4])}, {text}, {', '.join(good[4:])}]".encode()


@pytest.mark.parametrize(
    ("text", "repaired", "skipped"),
    [
        ('{"ph":"X","cat":"kernel","name":"n","ts":5,"args":{"x":nan,"y":-Infinity}}', 1, 0),
        ('{"ph":"X","cat":"kernel","name":"n\x01\n","ts":5}', 1, 0),
        ('{"ph":"X","cat":"kernel","name":"n","ts":5,"z":["\x02"]}', 1, 0),
        ('{"ph":"X","cat":"kernel" "name":"n","ts":5}', 0, 1),
        ('{"ph":"X","cat":"kernel","name":"n","ts":5,}', 0, 1),
        ('{"ph":"X","cat":"kernel","name":"n","ts":5 6}', 0, 1),
        ('{"ph":"X","cat":"kernel","name":"n","ts":tru}', 0, 1),
        ('{"ph":"X","cat":"kernel","name":n,"ts":5}', 0, 1),
        ('\0\0\0\0\0\0garbage', 0, 1),
    ],
)
def test_damage_costs_the_event_it_is_in(tmp_path: Path, text: str, repaired: int, skipped: int) -> None:
    for block in (60, 200, 1 << 20):
        for fast in (True, False):
            found = read(three(text), tmp_path, compiled=fast, block=block)
            names = [row[2] for row in found.kernels if not str(row[2]).startswith("n")]
            assert names == list("abcdefgh"), (block, fast)
            assert (found.tally.repaired, found.tally.skipped_stretches) == (repaired, skipped), (block, fast)
            assert found.tally.closed


def test_a_cut_file_gives_every_complete_event(tmp_path: Path, deep: bool) -> None:
    whole = json.dumps({"traceEvents": EVENTS[:10] * 2}).encode()
    for stop in range(20, len(whole), 97 if deep else 997):
        if whole[stop - 1 : stop + 1] in (b"}]", b"]}"):
            continue
        plain = read(whole[:stop], tmp_path, compiled=False, block=1 << 20)
        for block in (90, 1 << 20):
            fast = read(whole[:stop], tmp_path, compiled=True, block=block)
            assert fast.rows() == plain.rows()
            assert not fast.tally.closed and fast.tally.events == plain.tally.events


def test_real_recordings(data: Path, tmp_path: Path, deep: bool) -> None:
    compared = 0
    for path in sorted((data / "traces/kineto").rglob("*.json*")):
        raw = path.read_bytes()
        raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" and path.stat().st_size < 60_000 else raw
        if len(raw) < (1_000_000 if deep else 300_000) and LOADER.sniff(raw[:65536]):
            compared += check(raw, tmp_path, 1 << 16, None)
    assert compared >= 10


def test_a_short_fuzz_finds_nothing(tmp_path: Path, deep: bool) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    done, compared = fuzz(1, 200 if deep else 10, 600, [], folder)
    assert done == (200 if deep else 10) and compared > 2


def test_without_compiled_code_the_plain_reader_does_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "COMPILED_BYTES", 0)
    monkeypatch.setattr(Program, "load", lambda _: None)
    (tmp_path / "t.json").write_text(json.dumps(EVENTS))
    (trace,) = LOADER.load(Job(tmp_path / "t.json", tmp_path))
    height = trace.kernels.collect().height + trace.info.facts["repeats"]
    assert height == len(reference(json.dumps(EVENTS).encode())[0])


@pytest.mark.deep
def test_where_code_cannot_be_linked_the_object_files_read_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that the command of the build hook writes: a file for each program, here the scanner only."""
    assert build.programs()[0] is SCANNER
    built, command = tmp_path / "built", "import sys; from warplens.loaders.native import build as it\n"
    command += "it.PROGRAMS = it.PROGRAMS[:1]; it.main(*sys.argv[1:])"
    subprocess.run([sys.executable, "-c", command, str(built), HOST], check=True)
    assert [file.name for file in built.iterdir()] == [f"{SCANNER.name}-{HOST}"]
    file = kept_code.read_file(built / f"{SCANNER.name}-{HOST}")
    assert isinstance(file.code, Objects) and file.digest == SCANNER.digest()
    data = json.dumps(EVENTS).encode()
    linked = read(data, tmp_path, compiled=True, block=97).rows()
    made = Native(file.code, SCANNER.names)
    monkeypatch.setattr("kineto_reading.native", lambda: made)
    assert read(data, tmp_path, compiled=True, block=97).rows() == linked
    assert linked[0]


@pytest.mark.parametrize(("over", "place"), [(True, 0), (False, 3000)])
def test_a_scan_that_nobody_needs_any_more_ends(tmp_path: Path, over: bool, place: int) -> None:
    """Behind the list there may be anything; other threads look at it before the end of the list is found."""
    own = BlockScanner(native(), Tables(Strings(), tmp_path), threading.Lock(), over=lambda: over)
    found = own.scan(bytearray(b"[]," * 1000 + bytes(PAD)), 3000, 0, True, True)
    assert found.place == place and found.tally.events == 0


@pytest.mark.parametrize("gap", ["", ",[],"])
def test_damage_at_every_event_is_not_copied_for_every_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gap: str
) -> None:
    """Without commas, or with what is no event between any two, a file of megabytes took minutes."""
    walked: list[int] = []

    def seen(data: bytes, *more: Any, **named: Any) -> Any:
        walked.append(len(data))
        return walk(data, *more, **named)

    monkeypatch.setattr(blocks, "walk", seen)
    text = gap.join(json.dumps(event(ts=at)) for at in range(3000)).encode()
    own = BlockScanner(native(), Tables(Strings(), tmp_path), threading.Lock())
    found = own.scan(bytearray(text + bytes(PAD)), len(text), 0, True, True)
    assert found.place == len(text) and found.tally.events == 3000
    assert sum(walked) < 40 * len(text)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("behind", "warning"),
    [
        ('], "traceName": "a', "truncated: all events were read, but the metadata after them is cut off"),
        ('], "traceName": "' + 17_000 * "a" * 1000 + '"}', ""),
        ('], "traceName": "' + 17_000 * "a" * 1000, "truncated: all events were read, but the metadata after"),
        ("", "truncated: the file ends in the middle of the list of events"),
        ("]}\0\0\n", ""),
        ('], "traceName": "a"}\n{"traceEvents": []}', "a second JSON document or list of events follows the first: the "
         "last 19 bytes were not read"),
        ("]}" + 40_000 * '[{"ts": 1, "ph": "X"}, {"ts": 2}]', "a second JSON document or list of events follows the "
         "first: the last 1,320,000 bytes were not read"),
        ('], {"ph": "X"}]}', "a second JSON document or list of events follows the first: the last 13 bytes were not"),
        ('], "traceEvents": []}', "a second JSON document or list of events follows the first: the last 3 bytes were"),
        ("]} and so on", "more follows the JSON document: the last 9 bytes were not read"),
    ],
    ids=["cut", "long", "long and cut", "in the list", "padded", "a document", "a list", "a stray end", "a list within",
         "words"],
)
def test_a_list_that_ended_is_whole_whatever_stands_behind_it(
    tmp_path: Path, compiled: bool, behind: str, warning: str
) -> None:
    """Of a long text behind the list only the first part is kept, which is no sign that the file was cut."""
    text = f'{{"traceEvents": [{json.dumps(event())}{behind}'.encode()
    tally = read(text, tmp_path, compiled=compiled, block=1 << 20).tally
    assert tally.events == 1 and " | ".join(tally.warnings()).startswith(warning)
    assert bool(tally.warnings()) == bool(warning) and tally.whole == bool(behind)
