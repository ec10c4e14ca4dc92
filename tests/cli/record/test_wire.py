"""The daemon's datagrams: what is read, what is dropped, what is answered."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kineto_client import HEAD, context, parsed, request

from warplens.cli.record import wire


def test_a_request_names_the_process_and_its_ancestors() -> None:
    assert wire.parse(request(42, 7, 1)) == wire.Message("req", (42, 7, 1), ready=True)


def test_a_process_that_records_is_not_ready() -> None:
    assert wire.parse(request(42, kinds=0)) == wire.Message("req", (42,), ready=False)
    assert wire.parse(request(42, kinds=1)) == wire.Message("req", (42,), ready=False)
    assert wire.parse(request(42, kinds=2)) == wire.Message("req", (42,), ready=True)


def test_a_context_names_the_process() -> None:
    assert wire.parse(context(42)) == wire.Message("ctxt", (42,))


@pytest.mark.parametrize("datagram", [
    b"", b"x", HEAD.pack(1 << 40, b"req"), HEAD.pack(4, b"req") + b"abcd", HEAD.pack(4, b"hello") + b"abcd",
    HEAD.pack(16, b"req") + struct.pack("<iiq", 3, 1 << 30, 0), HEAD.pack(16, b"req") + struct.pack("<iiq", 3, -5, 0),
    HEAD.pack(16, b"req") + struct.pack("<iiq", 3, 0, 0), HEAD.pack(20, b"req") + struct.pack("<iiqi", 3, 2, 0, 42),
    HEAD.pack(8, b"ctxt") + b"12345678", HEAD.pack(15, b"ctxt") + bytes(16), HEAD.pack(20, b"reqs") + bytes(20),
    HEAD.pack(20, b"req") + struct.pack("<iiqi", 3, 1, 0, -1), request(42) + b"more", request(42)[:-1],
    HEAD.pack(1 << 16, b"req") + bytes(1 << 16),
], ids=lambda one: one[:48].hex())
def test_what_is_no_message_is_dropped(datagram: bytes) -> None:
    assert wire.parse(datagram) is None


@given(st.binary(max_size=200))
def test_no_bytes_raise_and_fewer_than_a_header_are_no_message(datagram: bytes) -> None:
    assert wire.parse(datagram) is None or len(datagram) >= HEAD.size


@given(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=64))
def test_a_count_never_reaches_beyond_the_body(count: int, rest: bytes) -> None:
    body = struct.pack("<iiq", 3, count, 0) + rest
    message = wire.parse(HEAD.pack(len(body), b"req") + body)
    assert message is None or len(message.pids) == count <= len(rest) // 4


def test_settings_by_time_begin_at_once_unless_ranks_must_agree() -> None:
    def of(**more: int) -> dict[str, str]:
        packet = wire.settings(Path("/d/run.1.json"), ms=300, cycles=None, stack=True, **more)
        return parsed(packet[HEAD.size :].decode())

    assert of()["ACTIVITIES_LOG_FILE"] == "/d/run.1.json" and of()["ACTIVITIES_DURATION_MSECS"] == "300"
    assert of()["PROFILE_START_TIME"] == "0" and of()["PROFILE_WITH_STACK"] == "true"
    assert of(start_ms=1_800_000_000_000)["PROFILE_START_TIME"] == "1800000000000"
    assert "ACTIVITIES_ITERATIONS" not in of()


def test_settings_by_steps_have_no_start_time() -> None:
    made = parsed(wire.settings(Path("/d/r.json"), ms=500, cycles=3, stack=False)[HEAD.size :].decode())
    assert made["ACTIVITIES_ITERATIONS"] == "3" and made["PROFILE_START_ITERATION_ROUNDUP"] == "1"
    assert "PROFILE_START_TIME" not in made


@pytest.mark.parametrize("folder", ["/a#b", "/a=b", "/a/x.json/y", "/a\nb", "/a/..b", "/a/b "])
def test_a_folder_libkineto_would_misread_is_refused(folder: str) -> None:
    assert not wire.can_be_sent(Path(folder))
    assert wire.can_be_sent(Path("/home/me/my runs/recorded"))
