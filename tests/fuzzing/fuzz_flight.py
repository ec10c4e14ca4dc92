"""Flight-recorder dumps with values, words and bytes changed, as JSON and as pickles: each opens or is refused."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path

from fuzz_files import Target, changed
from fuzz_memory import reshaped

from warplens.loaders.flight_recorder import LOADER

_WORDS = (
    b"", b"null", b"NaN", b"-1", b"1e999", b"-0.0", b"9" * 25, b"18446744073709551615", b"[]", b"{}", b'"x"', b"true",
    b'"\\ud800"', b'"nccl:send 0->1"', b'"nccl:recv 99999999999<-3"', b"[[[1]]]", b'"0,1,x"', b'"' + b"a" * 3000 + b'"',
)


def target(files: list[Path]) -> Target:
    """The dumps with values, words and bytes changed, under names with and without a rank."""
    data = [file.read_bytes() for file in files]
    contents = [json.loads(one) for one in data]
    numbers = [[at for at, byte in enumerate(one) if byte == ord(":")] for one in data]

    def place(folder: Path, chance: random.Random) -> Path:
        at = chance.randrange(len(data))
        is_json = chance.random() < 0.6
        if is_json and chance.random() < 0.5:
            made = data[at]
            for colon in sorted(chance.choices(numbers[at], k=chance.choice((1, 1, 2, 9))), reverse=True):
                end = min((place for mark in b",}\n" if (place := made.find(mark, colon)) > 0), default=colon)
                made = made[: colon + 1] + chance.choice(_WORDS) + made[end:]
        else:
            content = reshaped(contents[at], chance)
            made = json.dumps(content).encode() if is_json and not _holds_bytes(content) else pickle.dumps(
                content, protocol=chance.choice((2, 3, 4, 5)))
        if chance.random() < 0.3:
            made = changed(made, chance)
        path = folder / chance.choice(("nccl_trace_rank_3.json", "dump_12", "x.pickle", "rank99999999999999.json"))
        path.write_bytes(made)
        return path

    return Target(LOADER, place)


def _holds_bytes(content: object) -> bool:
    if isinstance(content, dict):
        return any(map(_holds_bytes, content.values()))
    return isinstance(content, bytes) or (isinstance(content, list | tuple) and any(map(_holds_bytes, content)))
