"""Decompression: what was stored comes back, and damage ends a stream instead of raising."""

from __future__ import annotations

import gzip
import random
import sqlite3
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warplens.loaders.ingest import decoders, stream

TEXT = random.Random(7).randbytes(300_000).hex().encode()
STORED = {
    "plain": TEXT,
    "gzip": gzip.compress(TEXT, 1),
    "two gzip members": gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:]),
    "padded gzip": gzip.compress(TEXT) + bytes(700),
    "zstd": zstandard.compress(TEXT),
    "two zstd frames": zstandard.compress(TEXT[:1000]) + zstandard.compress(TEXT[1000:]),
}


def everything(path: Path, size: int) -> tuple[bytes, stream.Source]:
    with stream.Source(path) as source:
        pieces = list(iter(lambda: source.read(size), b""))
    assert all(len(piece) == size for piece in pieces[:-1])
    return b"".join(pieces), source


@pytest.mark.parametrize("how", STORED)
@pytest.mark.parametrize("size", [1000, 65536, 8 << 20])
def test_what_was_stored_comes_back_in_full_blocks(tmp_path: Path, how: str, size: int) -> None:
    file = tmp_path / "file"
    file.write_bytes(STORED[how])
    text, source = everything(file, size)
    assert text == TEXT
    assert source.ended is None
    assert source.decompressed == len(TEXT)
    assert source.position <= source.size == len(STORED[how])
    assert stream.head(file, 500) == TEXT[:500]


@pytest.mark.parametrize("how", [*STORED, "zstd that expands a lot"])
@given(steps=st.lists(st.tuples(st.sampled_from(["read", "readinto", "skip"]), st.integers(0, 400_000)), max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_ways_of_reading_can_be_mixed(tmp_path: Path, how: str, steps: list[tuple[str, int]]) -> None:
    text = TEXT if how in STORED else bytes(1_000_000)
    file = tmp_path / "file"
    file.write_bytes(STORED.get(how) or zstandard.compress(text))
    at = 0
    with stream.Source(file) as source:
        for way, size in steps:
            if way == "skip":
                if at + size > len(text):
                    break
                source.skip(size)
            elif way == "read":
                assert source.read(size) == text[at : at + size]
            else:
                buffer = bytearray(size)
                filled = source.readinto(memoryview(buffer))
                assert buffer[:filled] == text[at : at + size]
            at = min(at + size, len(text))
        assert source.decompressed == at


@pytest.mark.parametrize("how", ["gzip", "zstd"])
def test_a_stream_cut_short_gives_what_it_has_and_says_so(tmp_path: Path, how: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(STORED[how][: len(STORED[how]) // 2])
    text, source = everything(file, 65536)
    assert len(TEXT) // 4 < len(text) < len(TEXT)
    assert TEXT.startswith(text)
    assert source.ended is not None
    assert "cut off" in source.ended


def test_a_stream_damaged_in_the_middle_gives_what_comes_before(tmp_path: Path) -> None:
    """What is behind the damage may be decoded too, and is then not what was stored."""
    file = tmp_path / "file"
    stored = bytearray(gzip.compress(TEXT[:200_000]) + gzip.compress(TEXT[200_000:]))
    stored[len(stored) // 2 : len(stored) // 2 + 4000] = b"\xff" * 4000
    file.write_bytes(stored)
    text, source = everything(file, 65536)
    assert TEXT.startswith(text[:200_000])
    assert source.fault is not None
    assert "damaged" in source.fault


def test_what_follows_a_compressed_stream_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(gzip.compress(b"hello") + b"trailing words")
    text, source = everything(file, 100)
    assert text == b"hello"
    assert source.ended is not None
    assert "not compressed" in source.ended


def member(text: bytes, flags: int = 0, checksum: int | None = None, size: int | None = None) -> bytes:
    """A gzip member by RFC 1952, with what its flags say in its header."""
    parts = {4: b"\x05\0extra", 8: b"a name\0", 16: b"a comment\0", 2: b"\x12\x34"}
    header = b"\x1f\x8b\x08" + bytes([flags]) + bytes(6) + b"".join(parts[bit] for bit in parts if flags & bit)
    data = zlib.compress(text, wbits=-15)
    checksum = zlib.crc32(text) if checksum is None else checksum
    return header + data + checksum.to_bytes(4, "little") + (len(text) if size is None else size).to_bytes(4, "little")


@pytest.mark.parametrize("wrong", [{"checksum": 7}, {"size": 7}], ids=["checksum", "size"])
@pytest.mark.parametrize("after", [b"", member(b"more"), bytes(600)], ids=["alone", "a member", "padding"])
def test_whole_data_behind_a_wrong_checksum_are_handed_out(tmp_path: Path, wrong: dict[str, int], after: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(member(TEXT, **wrong) + after)
    text, source = everything(file, 65536)
    assert text == TEXT + (b"more" if after.strip(b"\0") else b"") and source.ended is None
    assert source.fault is not None and "checksum" in source.fault


@pytest.mark.parametrize("flags", [0, 1, 2, 4, 8, 16, 31])
def test_a_gzip_header_is_passed_over_wherever_it_is_cut(tmp_path: Path, flags: int, monkeypatch) -> None:
    file, stored = tmp_path / "file", member(TEXT[:500], flags)
    monkeypatch.setattr(decoders.Gzip, "chunk", 1)
    file.write_bytes(stored * 2)
    text, source = everything(file, 64)
    assert text == 2 * TEXT[:500] and source.fault is None
    for cut in range(4, len(stored)):
        file.write_bytes(stored[:cut])
        text, source = everything(file, 64)
        assert TEXT.startswith(text) and source.fault is not None and "cut off" in source.fault, cut


@pytest.mark.parametrize("stored", [
    b"\x1f\x8b\x07" + bytes(60), b"\x1f\x8b\x08\xe0" + bytes(60), b"\x1f\x8b\x08\x08" + bytes(6) + b"x" * (2 << 20),
], ids=["method", "flags", "a name without end"])
def test_a_gzip_header_that_is_none_is_said(tmp_path: Path, stored: bytes) -> None:
    (tmp_path / "file").write_bytes(stored)
    text, source = everything(tmp_path / "file", 65536)
    assert not text and source.fault is not None and "damaged near byte" in source.fault


@given(
    magic=st.sampled_from([decoders.GZIP, decoders.GZIP + b"\x08", decoders.ZSTD, b""]), rest=st.binary(max_size=300))
def test_noise_never_raises(tmp_path_factory: pytest.TempPathFactory, magic: bytes, rest: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "noise"
    file.write_bytes(magic + rest)
    everything(file, 64)
    stream.head(file)


def test_the_head_of_a_database_is_its_schema(tmp_path: Path) -> None:
    file = tmp_path / "it's 100% odd?.sqlite"
    with sqlite3.connect(file) as database:
        for number in range(300):
            database.execute(f"create table filler_{number} (a integer, b text, c real, d integer, e text)")
        database.execute("create table the_last_one (x integer)")
    database.close()
    head = stream.head(file)
    assert head.startswith(stream.SQLITE)
    assert b"the_last_one" in head
    assert len(head) <= 65536


def test_blocks_of_lines_end_at_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"".join(b"%d\n" % number for number in range(1000)) + b"no end")
    with stream.Source(file) as source:
        blocks = list(stream.line_blocks(source, 64))
    assert b"".join(blocks) == file.read_bytes()
    assert all(block.endswith(b"\n") for block in blocks[:-1]) and blocks[-1] == b"no end"


def test_a_line_that_never_ends_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "line"
    file.write_bytes(b"x" * 5000 + b"\nrest\n")
    with stream.Source(file) as source:
        blocks = list(stream.line_blocks(source, 64))
    assert b"".join(blocks) == file.read_bytes()
    assert max(map(len, blocks)) <= 6 * 64
