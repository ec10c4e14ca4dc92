"""Writes the sample of a converted run: ``kineto.pt.trace.json`` as written by ``warplens convert``.

    python samples/make_converted.py [folder]

It needs warplens itself. The recording's path is left out, so that the files do not depend on it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from msgspec.structs import replace

from warplens.loaders.converted import write
from warplens.loaders.ingest.opening import open_run


def main(folder: Path) -> None:
    """Write the tables and the description that makes them a run."""
    (run,) = open_run(str(Path(__file__).with_name("kineto.pt.trace.json")), use_cache=False, compiled=False)
    write(folder, [replace(run, info=replace(run.info, source="kineto.pt.trace.json"))])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "converted")
