"""Throws broken and strange traces at both readers of Kineto JSON; a short run of it is part of the tests.

    python tests/fuzzing/fuzz_kineto.py MINUTES [FILE.json[.gz] ...]

Each round takes a stretch of a real or made-up trace, changes it, and reads it with the compiled scanner in small
blocks, with every array index checked and the text ending right before a page nobody may read. What orjson accepts
must give what an independent reading gives, cell by cell, in both readers; the rest must neither crash nor hang.
"""

from __future__ import annotations

import ctypes
import gzip
import json
import mmap
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    os.environ["NUMBA_BOUNDSCHECK"] = "1"
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / "warplens-fuzz-numba"))
    sys.path.insert(0, str(Path(__file__).parents[1] / "loaders"))

from fuzz_files import Target, changed
from kineto_reading import accepted, native, read, reference, relative

SPELLINGS = [
    b"NaN", b"Infinity", b"-inf", b"null", b"true", b"1e3", b"-0", b"0", b"18446744073709551615",
    b"-9223372036854775808", b"4294967295", b"2147483648", b"-2147483648", b"-2147483649", b"-2", b'"host"',
    b"123456789012345678901", b"0.5", b"007", b"1.", b".5", b"1.0005", b"9007199254740993.0625", b'"7"', b'"stream 7"',
    b'"\\u0041\\n\\ud83d\\ude00"', b'"\\ud800"', b'"\xff"', b'"a\x01b"', b"[1, 2,3]", b"[]", b"[1.5]", b"{}",
    b'{"ph":"X"}',
    b'"args": {"stream": 3}', b'"ts": "12.5"', b'"\\u0070h": "X"', b'"}, {"', b'"' + b"k" * 3000 + b'"', b"[" * 40,
]  # fmt: skip
KEYS = [
    b'"correlation":', b'"External id":', b'"external id":', b'"stream":', b'"device":', b'"grid":', b'"block":',
    b'"registers per thread":', b'"est. achieved occupancy %":', b'"blocks per SM":', b'"bytes":', b'"graph node id":',
    b'"ts":', b'"dur":', b'"pid":', b'"tid":', b'"cat":', b'"name":', b'"ph":', b'"args":', b'"graph id":',
    b'"Device Type":', b'"Device Id":', b'"Total Allocated":', b'"Total Reserved":', b'"Bytes":', b'"rank":',
    b'"Collective name":', b'"Process Group Name":', b'"Process Group Ranks":', b'"dtype":', b'"Group size":',
    b'"In msg nelems":', b'"Out msg nelems":', b'"Seq":', b'"Addr":',
]  # fmt: skip
BYTES = [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n", b" ", b"\0", b"\x1f", b"\xff", b"-", b"e", b"9"]


def mutations(rng: random.Random) -> list[Callable[[bytearray], None]]:
    """Ways to change a text in place."""

    def anywhere(text: bytearray) -> int:
        return rng.randrange(len(text) + 1)

    def put_byte(text: bytearray) -> None:
        at = anywhere(text)
        text[at : at + rng.choice((0, 1))] = rng.choice(BYTES)

    def remove(text: bytearray) -> None:
        at = anywhere(text)
        del text[at : at + rng.choice((1, 2, 30, 400))]

    def repeat(text: bytearray) -> None:
        at = anywhere(text)
        text[at:at] = text[at : at + rng.choice((5, 60, 700))]

    def cut(text: bytearray) -> None:
        del text[anywhere(text) :]

    def value(text: bytearray) -> None:
        at = text.find(rng.choice(KEYS), anywhere(text))
        if at >= 0:
            begin = text.index(b":", at) + 1
            ends = [end for end in (text.find(mark, begin) for mark in (b",", b"}", b"\n")) if end >= 0]
            text[begin : min(ends, default=len(text))] = b" " + rng.choice(SPELLINGS)

    def pair(text: bytearray) -> None:
        at = text.find(rng.choice((b"{", b",")), anywhere(text))
        if at >= 0:
            new = rng.choice(KEYS) + b" " + rng.choice(SPELLINGS)
            text[at + 1 : at + 1] = new + b"," if text[at : at + 1] == b"{" else b" " + new + b","

    return [put_byte, remove, repeat, cut, value, value, value, pair, pair]


def made_up(rng: random.Random) -> bytes:
    """A small trace with the things that are hard about traces."""
    names = ["k", 'a"}, {"ph": "X"', "back\\slash", "ünï", "x" * 700, "\t]", "ncclKernel", "ProfilerStep#3", ""]
    events = []
    for place in range(rng.randrange(1, 60)):
        cat = rng.choice(["kernel", "cpu_op", "cuda_runtime", "Kernel", "gpu_memcpy", "odd", "user_annotation"])
        args = {
            "stream": rng.choice([7, "7", "0x0", None]), "correlation": rng.choice([place, 2**63 + 5, -1]),
            "grid": [rng.randrange(9), 1, 1], "Input Dims": [[1, [2, 3]], []], "blocks per SM": rng.random() * 60,
            "est. achieved occupancy %": rng.randrange(101), rng.choice(["External id", "external id"]): place,
            "Collective name": rng.choice(["allreduce", None, 3]), "Seq": place, "dtype": rng.choice(["Float", "", 1]),
            "Process Group Ranks": rng.choice(["[0, 1]", [0, 1], [], ["..."], "[0, ...]"]), "In msg nelems": 1 << place,
        }  # fmt: skip
        event = {
            "ph": rng.choice("XXXXXsfiMC"), "cat": cat, "name": rng.choice(names), "pid": 1, "tid": "stream 7",
            "ts": rng.choice([place, place + 0.125, f"{place}.5"]), "dur": rng.random() * 9, "args": args,
        }  # fmt: skip
        if rng.random() < 0.2:
            event |= {"ph": rng.choice("iiI"), "name": "[memory]", "tid": rng.choice([1, 2, "stream 7"]), "args": {
                "Device Type": rng.choice([0, 1, 1, 1, None]), "Device Id": rng.choice([0, 0, 1, -1]),
                "Bytes": rng.choice([512, -512, 1 << 40, 0]), "Addr": rng.choice([7 << 44, 8 << 44, 2**63, None]),
                "Total Allocated": place << 9,
            }}  # fmt: skip
        pairs = list(event.items())
        rng.shuffle(pairs)
        events.append(dict(pairs))
    text = json.dumps(
        {"schemaVersion": 1, "traceEvents": events, "z": [1]} if rng.random() < 0.7 else events,
        indent=rng.choice([None, 1, 2]), ensure_ascii=rng.random() < 0.5,
        separators=rng.choice([None, (",", ":")]),
    )  # fmt: skip
    return text.replace("\n", rng.choice(["\n", "\r\n"])).encode()


def stretch(rng: random.Random, sources: list[bytes]) -> bytes:
    """A document made of some events of a source, or a made-up one."""
    if not sources or rng.random() < 0.4:
        return made_up(rng)
    text = rng.choice(sources)
    mark = b'"traceEvents": ['
    first = text.find(mark) + len(mark)
    begin = text.find(b'{\n    "', first + rng.randrange(max(1, len(text) - first - 5000)))
    begin = begin if begin > first else first
    end = text.rfind(b"}", begin, begin + rng.choice((800, 5000, 30000)))
    return b'{"traceEvents": [' + text[begin : end + 1] + b"]}"


class Guarded:
    """Memory whose last byte is the last before a page that must not be touched (where the system can do that)."""

    def __init__(self, pages: int = 64) -> None:
        self.size = pages * mmap.PAGESIZE
        self.map = mmap.mmap(-1, self.size + mmap.PAGESIZE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mprotect"):
            libc.mprotect(ctypes.c_void_p(address + self.size), ctypes.c_size_t(mmap.PAGESIZE), 0)

    def holding(self, text: bytes, pad: int) -> memoryview:
        """The text and its padding, flush with the guard."""
        begin = self.size - len(text) - pad
        self.map[begin : self.size] = text + b'"' * pad
        return memoryview(self.map)[begin : self.size]


def scan_guarded(text: bytes, guarded: Guarded, folder: Path) -> None:
    """One block through the scanner at the edge of readable memory."""
    from warplens.loaders.kineto.columns import Strings
    from warplens.loaders.kineto.scan.blocks import BlockScanner
    from warplens.loaders.kineto.scan.layout import PAD
    from warplens.loaders.kineto.tables import Tables

    if len(text) + PAD <= guarded.size:
        own = BlockScanner(native(), Tables(Strings(), folder), threading.Lock(), rows=16)
        own.scan(guarded.holding(text, PAD), len(text), 0, True, True)


def check(data: bytes, folder: Path, block: int, guarded: Guarded | None) -> bool:
    """Read once with each reader; whether orjson accepts the text, so that all three were compared."""
    if guarded is not None:
        scan_guarded(data[data.find(b"[") + 1 :], guarded, folder)
    fast = read(data, folder, compiled=True, block=block)
    plain = read(data, folder, compiled=False, block=block)
    anywhere = read(data, folder, compiled=True, block=block, plain=True)
    assert anywhere.rows() == fast.rows() and anywhere.tally == fast.tally, "where threads read makes a difference"
    if not accepted(data) or not fast.found:
        return False
    assert fast.rows() == plain.rows(), "the readers differ"
    kernels, host = reference(data)
    assert relative(fast.kernels) == kernels, "kernels differ from the reference"
    assert relative(fast.host) == host, "host slices differ from the reference"
    assert not fast.tally.repaired and not fast.tally.skipped_stretches and fast.tally.closed
    return True


def fuzz(seed: int, rounds: int | None, seconds: float, sources: list[bytes], folder: Path) -> tuple[int, int]:
    """Run until the rounds or the seconds are over; returns (texts read, texts orjson accepted)."""
    guarded, done, compared, end = Guarded(), 0, 0, time.monotonic() + seconds
    while (rounds is None or done < rounds) and time.monotonic() < end:
        rng = random.Random(seed * 1_000_003 + done)
        text = bytearray(stretch(rng, sources))
        for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
            rng.choice(mutations(rng))(text)
        began = time.monotonic()
        try:
            compared += check(bytes(text), folder, rng.choice((96, 700, 4096, 1 << 20)), guarded)
            assert time.monotonic() - began < 60, "it took a minute"
        except BaseException:
            (folder.parent / f"fuzz-{seed}-{done}.json").write_bytes(text)
            print(f"seed {seed} round {done}: kept as {folder.parent}/fuzz-{seed}-{done}.json", flush=True)
            raise
        done += 1
    return done, compared


def target(files: list[Path]) -> Target:
    """Whole files through the loader, plain and compressed, with events, values and bytes changed."""
    from warplens.loaders.kineto import LOADER

    sources = [file.read_bytes() for file in files]

    def place(folder: Path, chance: random.Random) -> Path:
        text = bytearray(chance.choice(sources) if chance.random() < 0.6 else made_up(chance))
        ways = mutations(chance)
        for _ in range(chance.choice((0, 1, 1, 1, 2, 4))):
            chance.choice(ways)(text)
        data = changed(bytes(text), chance) if chance.random() < 0.4 else bytes(text)
        packed = chance.random() < 0.3
        if packed:
            data = gzip.compress(data, 1)
            data = changed(data, chance) if chance.random() < 0.3 else data
        path = folder / ("fuzz.json.gz" if packed else "fuzz.json")
        path.write_bytes(data)
        return path

    return Target(LOADER, place)


def main() -> None:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    sources = []
    for name in sys.argv[2:]:
        raw = Path(name).read_bytes()
        sources.append(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
    folder = Path(tempfile.mkdtemp()) / "work"
    folder.mkdir()
    seed = int(time.time())
    done, compared = fuzz(seed, None, minutes * 60, sources, folder)
    print(f"seed {seed}: {done:,} texts in {minutes:g} minutes, {compared:,} of them compared with orjson; no failure")


if __name__ == "__main__":
    main()
