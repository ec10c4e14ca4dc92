"""Writes the sample of a reduced dataset: two ranks of a synthetic job, as written by ``warplens reduce``.

    python samples/make_dataset.py [folder]

It needs warplens itself. The recordings' paths are left out, so that the files do not depend on them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import make_job
from msgspec.structs import replace

from warplens.analysis.fleet.reduce import VERSION, reduce
from warplens.loaders.dataset import write
from warplens.loaders.ingest.opening import open_run


def main(folder: Path) -> None:
    """Reduce the two ranks into the folder, replacing its content."""
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as place:
        job = Path(place)
        make_job.write(job, make_job.job(ranks=2, steps=2, layers=1, operators=2, late=1, slower=1.4, seed=4))
        for file in sorted(job.iterdir()):
            (run,) = open_run(str(file), use_cache=False, compiled=False)
            named = replace(run, info=replace(run.info, source=f"job/{file.name}", bytes=None))
            staged, part = write.stage(reduce(named), folder, "sample", [(f"job/{file.name}", 0, 0)], VERSION)
            write.commit(folder, staged, part)
    write.clean(folder, "sample")
    write.finish(folder, "dataset")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "dataset")
