"""Files of counters with bytes, numbers and words changed: every try opens or is refused.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

from fuzz_files import Handed, Target, changed

from warplens.loaders import registry, schema
from warplens.loaders.loader import Job
from warplens.loaders.trace import TABLE_NAMES, Trace

LOADERS = tuple(one for one in registry.ours() if type(one).__module__.startswith("warplens.loaders.counters."))
_WORDS = (b"", b"N/A", b"[N/A]", b"-", b"nan", b"1e999", b"-1", b"9" * 25, b"9223372036854775794", b"1e-400", b"0x10",
          b'"', b'""', b"2026/13/45 25:61:61", b"00:00:00", b"12:00", b"1772460450", b"1772460450.5", b"{", b"}", b"#",
          b"# gpu", b"#Entity", b"\xff\xfe", b"\0", b"GPU 99999999999", b"MiB", b"%", b"W" * 300, b",,,,", b"\n\n")
_LINES = 12
"""Lines of a file that are kept."""
_WORD = re.compile(rb"[^\s,;{}=]+")


def worded(data: bytes, chance: random.Random) -> bytes:
    """The bytes with some words put in the place of others."""
    for _ in range(chance.choice((1, 1, 2, 5, 30))):
        start = chance.randrange(len(data) + 1)
        if found := _WORD.search(data, start):
            data = data[: found.start()] + chance.choice(_WORDS) + data[found.end() :]
    return data


class AnyOf(Handed):
    """Hands a file to the loader that claims it, else to any of them."""

    name, title, suffixes, version = "any", "any of them", (), 1

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def load(self, job: Job) -> tuple[Trace, ...]:
        """What the loader makes of it; its tables keep to the schema."""
        head = job.path.read_bytes()[:65536]
        claimed = [one for one in LOADERS if one.sniff(head)]
        assert len(claimed) <= 1, claimed
        traces = (claimed or [self._chance.choice(LOADERS)])[0].load(job)
        for trace in traces:
            for table in TABLE_NAMES:
                assert dict(trace.table(table).collect_schema()) == schema.polars_schema(table), table
            times = trace.metrics.collect()["ts_ns"].drop_nulls()
            assert times.is_sorted() and not (times < 0).any()
        return traces


def target(files: list[Path]) -> Target:
    """The files with words and bytes changed."""
    data = [file.read_bytes() for file in files]
    data = [one if one.startswith(b"{") else b"".join(one.splitlines(keepends=True)[:_LINES]) for one in data]

    def place(folder: Path, chance: random.Random) -> Path:
        made = chance.choice(data)
        made = worded(made, chance) if chance.random() < 0.6 else made
        made = changed(made, chance) if chance.random() < 0.6 else made
        path = folder / "fuzz.csv"
        path.write_bytes(made)
        return path

    return Target(AnyOf(random.Random(0)), place)
