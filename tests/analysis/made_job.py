"""A made-up job on disk, and its dataset, for tests of everything that reduces one."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

_SCRIPT = Path(__file__).resolve().parents[2] / "samples" / "make_job.py"
_spec = importlib.util.spec_from_file_location("make_job", _SCRIPT)
assert _spec is not None and _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)


def write_job(folder: Path, ranks: int = 4, late: int | None = 2, **more: Any) -> Path:
    """The recordings of a job of so many ranks, of which one is late or none; gives the folder."""
    sizes = {"steps": 4, "layers": 2, "operators": 4, "slower": 1.3, "seed": 7} | more
    _module.write(folder, _module.job(ranks=ranks, late=late, **sizes), packed=False)
    return folder


def reduce_here(job: Path, dataset: Path, *only: str) -> Path:
    """The job's recordings (those whose names begin like that, or all) reduced in this process; gives the dataset."""
    from warplens.analysis.fleet.reduce import VERSION
    from warplens.cli.fleet.plan import plan
    from warplens.cli.fleet.recording import reduce_recording
    from warplens.loaders.dataset import write

    dataset.mkdir(exist_ok=True)
    for one in plan([str(job)], dataset, write.parts(dataset), VERSION).work:
        if only and not Path(one.files[0]).name.startswith(only):
            continue
        done = reduce_recording(one)
        assert done.folder is not None and done.part is not None, done.unread
        write.commit(dataset, Path(done.folder), done.part)
    write.finish(dataset, dataset.name)
    return dataset
