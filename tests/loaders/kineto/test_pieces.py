"""Texts in pieces: whoever reads them, the pieces of a text are the text."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from kineto_reading import Bytes, read

from warplens.loaders.ingest.stream import Source
from warplens.loaders.kineto import pipeline, plain, recovery
from warplens.loaders.kineto.document import open_document
from warplens.loaders.kineto.scan import blocks


def event(number: int, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": f"op {number % 7}", "ts": number, "dur": 1, "pid": 1, "tid": 1, **more}


def taken(source: Bytes, block: int, anywhere: bool) -> list[pipeline.Piece]:
    """All pieces of a document, each in a buffer of its own."""
    document = open_document(source, 1000)
    found: pipeline.InOrder | pipeline.FromAnywhere = pipeline.InOrder(source, document, block)
    if anywhere:
        found = pipeline.FromAnywhere(source, document, block)
    return list(iter(lambda: found.take(pipeline.buffer(block)), None))


@pytest.mark.parametrize("anywhere", [False, True])
@pytest.mark.parametrize("block", [40, 200, 5000])
@pytest.mark.parametrize("long", [0, 300])
def test_pieces_follow_each_other_without_a_gap(anywhere: bool, block: int, long: int) -> None:
    text = json.dumps([event(at, args={"x": "y" * (long if at == 20 else 0)}) for at in range(60)]).encode()
    found = taken(Bytes(text), block, anywhere)
    assert b"".join(bytes(piece.data[piece.begin : piece.stop]) for piece in found) == text[1:]
    assert [piece.base + piece.begin for piece in found[1:]] == [piece.base + piece.stop for piece in found[:-1]]
    assert [piece.number for piece in found] == list(range(len(found)))
    assert [piece.final for piece in found] == [False] * (len(found) - 1) + [True]
    assert all(text[piece.base + piece.stop - 1 :].startswith(b"}, {") for piece in found[:-1] if piece.bordered)
    assert all(piece.bordered for piece in found) or (anywhere and (block < 200 or long))


@pytest.mark.parametrize("size", [0, 1, 300, pytest.param(3_000_000, marks=pytest.mark.deep)])
def test_an_event_longer_than_what_is_looked_at_for_a_border(tmp_path: Path, size: int) -> None:
    events = [event(at, args={"x": "},{" * (size // 3 if at in (3, 4, 30) else 0)}) for at in range(60)]
    text = json.dumps(events).encode()
    one = read(text, tmp_path, compiled=True, block=1 << 20)
    assert len(one.host) == 60
    for block in (1000, 1 << 20):
        found = read(text, tmp_path, compiled=True, block=block, plain=True)
        assert found.rows() == one.rows() and found.tally == one.tally


@pytest.mark.parametrize("compiled", [False, True])
def test_an_event_longer_than_any_is_passed_over_and_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    for module in (blocks, pipeline, plain, recovery):
        monkeypatch.setattr(module, "LONGEST_EVENT", 30_000)
    events = [event(at, name="n" * 2_000_000 if at == 30 else "op") for at in range(60)]
    result = read(json.dumps(events).encode(), tmp_path, compiled=compiled, block=10_000, plain=True)
    assert len(result.host) == 59 and result.tally.skipped_bytes > 2_000_000


def test_a_file_that_shrinks_while_it_is_read_ends_there(tmp_path: Path) -> None:
    class Shrinking(Bytes):
        size = 10_000_000

    whole = json.dumps([event(at) for at in range(3000)]).encode()
    cut = whole[: len(whole) // 2]
    found = taken(Shrinking(cut), 1 << 16, True)
    assert found[-1].stop == found[-1].begin
    first = next(number for number, piece in enumerate(found) if piece.final)
    assert b"".join(bytes(piece.data[piece.begin : piece.stop]) for piece in found[: first + 1]) == cut[1:]


@pytest.mark.skipif(not hasattr(os, "preadv"), reason="files are read in order there")
def test_a_plain_file_is_read_from_anywhere_and_counted_to_the_last_byte(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)))
    with Source(path) as source:
        some = bytearray(16)
        assert source.read_at(memoryview(some), 248) == 8 and bytes(some[:8]) == bytes(range(248, 256))
        assert source.read_at(memoryview(some), 16) == 16 and bytes(some) == bytes(range(16, 32))
        assert (source.position, source.decompressed) == (256, 256)
        assert source.read(4) == bytes(range(4))
