"""Recordings made of several files, one or two of them changed: exports, datasets, cycle profiles, inputs.

Nobody but NVIDIA can write reports of its tools, so the export beside one is what is changed, or a stand-in of ``nsys``
makes a changed one, or a stand-in of NVIDIA's library says strange things.
"""

from __future__ import annotations

import gzip
import io
import random
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from fuzz_databases import confused, excerpts
from fuzz_files import Handed, Target, changed

from warplens.loaders import registry
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest import inputs, stream
from warplens.loaders.loader import FormatLoader, Job
from warplens.loaders.ncu import report as ncu_report
from warplens.loaders.nsys import PARQUET, STRINGS, report
from warplens.loaders.trace import Trace

_WORDS = (0, -1, 1 << 63, 1 << 64, 1e308, float("nan"), float("inf"), None, "", "x" * 999, "\ud800", b"\xff", [], {})
_NO_FILES = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE)


def _folder(loader: FormatLoader, folder: Path, opened: str, most: int = 1000) -> Target:
    """At most so many files of a folder, bytes of one or two of them changed."""
    names = sorted(file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    originals = {name: (folder / name).read_bytes() for name in names}
    sure, others = [name for name in names if str(name) == opened], [name for name in names if str(name) != opened]

    def place(base: Path, chance: random.Random) -> Path:
        run, before = base / folder.name, present.copy()
        present[:] = [*sure, *chance.sample(others, min(most, len(others)))]
        for name in {*before} - {*present}:
            (run / name).unlink(missing_ok=True)
        broken = chance.sample(present, chance.choice((1, 1, 1, 2)))
        for name in {*present} - {*before} | {*broken, *last} & {*present} if run.exists() else present:
            (run / name).parent.mkdir(parents=True, exist_ok=True)
            (run / name).write_bytes(changed(originals[name], chance) if name in broken else originals[name])
        last[:] = broken
        return run / opened

    present, last = list[Path](), list[Path]()
    return Target(loader, place)


def nsys_parquet(samples: Path) -> Target:
    """The folder of ``nsys export --type parquetdir``."""
    return _folder(PARQUET, samples / "nsys_pqtdir", STRINGS, 3)


def dataset(samples: Path) -> Target:
    """A reduced dataset: its description more often than its tables, which are scanned when they are asked for."""
    from warplens.loaders.dataset import LOADER
    from warplens.loaders.dataset.layout import DESCRIPTION

    return _described(LOADER, samples / "dataset", DESCRIPTION)


def converted(samples: Path) -> Target:
    """What ``convert`` writes."""
    from warplens.loaders.converted import DESCRIPTION, LOADER

    return _described(LOADER, samples / "converted", DESCRIPTION)


def _described(loader: FormatLoader, folder: Path, description: str) -> Target:
    target = _folder(loader, folder, description)
    original = (folder / description).read_bytes()

    def place(base: Path, chance: random.Random) -> Path:
        path = target.place(base, chance)
        if chance.random() < 0.7:
            path.write_bytes(changed(original, chance))
        elif path.exists():
            path.write_bytes(original)
        return path

    return Target(loader, place)


def cycle_profile(samples: Path) -> Target:
    """Both files of a cycle profile."""
    from warplens.loaders.cycle_profile import LOADER, PERF

    return _folder(LOADER, samples / "cycle_profile" / "normal", PERF)


def nsys_report(samples: Path) -> Target:
    """Reports with a changed export beside them, or with an ``nsys`` that makes one."""
    exports = excerpts((samples / "nsys_report" / "toy.sqlite").read_bytes(), 40)

    def place(folder: Path, chance: random.Random) -> Path:
        export = chance.choice(exports)
        path = folder / chance.choice(("run.nsys-rep", "run.qdrep"))
        path.write_bytes(chance.randbytes(chance.randrange(40)))
        beside = path.with_suffix(".sqlite")
        made = changed(export, chance) if chance.random() < 0.5 else confused(export, chance)
        if chance.random() < 0.7:
            beside.write_bytes(made)
        else:
            beside.unlink(missing_ok=True)
            report._exported = _nsys(made)
        return path

    return Target(report.LOADER, place)


def _nsys(export: bytes) -> Callable[[Job], Path]:
    def exported(job: Job) -> Path:
        path = job.workspace / "export.sqlite"
        path.write_bytes(export)
        return path

    return exported


class _Metric(SimpleNamespace):
    def value(self) -> Any:
        return self.said

    def unit(self) -> Any:
        return self.of

    def num_instances(self) -> int:
        return 1


class _Action:
    """A result as NVIDIA's library hands it out, with strange things among what it says."""

    _NAMES = ("gpu__time_duration.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed", "launch__device_id",
              "launch__grid_dim_x", "launch__grid_dim_y", "launch__grid_dim_z", "launch__block_dim_x",
              "launch__stream_id", "device__attribute_compute_capability_major", "launch__occupancy", "what.else")

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._metrics = {name: _Metric(said=self._strange(chance.randrange(1, 99)), of=self._strange("ns"))
                         for name in self._NAMES if chance.random() < 0.95}

    def _strange(self, usual: Any) -> Any:
        return self._chance.choice(_WORDS) if self._chance.random() < 0.2 else usual

    def name(self) -> Any:
        return self._strange("gemm")

    def metric_names(self) -> tuple[str, ...]:
        return tuple(self._metrics)

    def metric_by_name(self, name: str) -> _Metric | None:
        return self._metrics.get(name) if self._chance.random() < 0.98 else None

    def rule_results_as_dicts(self) -> list[dict[str, Any]]:
        if self._chance.random() < 0.01:
            raise RuntimeError("no rules\nhere")
        return [{"rule_message": {"title": self._strange("a"), "message": self._strange("b")},
                 "speedup_estimation": {"speedup": self._strange(1.5), "type": self._strange(1)},
                 "focus_metrics": [{"name": self._strange("m")}]}]


class _NcuReport(Handed):
    """The loader of reports, asked for the details of the first launch too."""

    name, title, suffixes, version = "ncu-rep", "reports", (".ncu-rep",), 1

    def load(self, job: Job) -> tuple[Trace, ...]:
        """What the loader makes of it."""
        traces = ncu_report.LOADER.load(job)
        with suppress(ValueError, Unreadable):
            ncu_report.LOADER.arguments(job.path, 0, "gemm")
        return traces


def ncu_rep(samples: Path) -> Target:
    """Reports through a stand-in of NVIDIA's library."""

    def place(folder: Path, chance: random.Random) -> Path:
        actions = [_Action(chance) for _ in range(chance.randrange(4))]
        part = SimpleNamespace(num_actions=lambda: len(actions), action_by_idx=actions.__getitem__)
        loaded = SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda number: part)
        library = ModuleType("ncu_report")
        vars(library)["load_report"] = lambda name: loaded
        sys.modules["ncu_report"] = library
        path = folder / "run.ncu-rep"
        path.write_bytes(ncu_report.MAGIC)
        return path

    return Target(_NcuReport(), place)


class _Unpacked(Handed):
    """Unpacks an archive as opening it does, and loads the files whose formats are known."""

    name, title, suffixes, version = "archive", "archives", (".zip", ".tar"), 1

    def load(self, job: Job) -> tuple[Trace, ...]:
        """The traces of what is in it."""
        if not inputs.is_archive(job.path):
            return ()
        target = job.workspace / "unpacked"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        try:
            inputs.unpack(str(job.path), job.path, target, job.progress)
        except OSError as error:  # as opening a file has it
            raise Unreadable(job.path, f"cannot be read ({error.strerror})") from None
        found = [file for file in target.rglob("*")]
        assert all(not file.is_symlink() and file.resolve().is_relative_to(target.resolve()) for file in found)
        traces = list[Trace]()
        for file in found:
            if file.is_file() and (claims := registry.claims(stream.head(file))):
                traces += claims[0].load(Job(file, job.workspace, lasting=False))
        return tuple(traces)


def archive(samples: Path) -> Target:
    """Archives of two small recordings: bytes of the archive changed, or its members' names and kinds."""
    members = {name: (samples / name).read_bytes() for name in ("kineto.pt.trace.json", "nsys_kern_sum.csv")}

    def place(folder: Path, chance: random.Random) -> Path:
        names = [chance.choice((name, name, name, f"../{name}", f"/tmp/{name}", "a/" * 50 + name, "x\0y", ".", "\ud800",
                                "n" * 300)) for name in members]  # fmt: skip
        kind = chance.choice(("zip", "tar", "tar.gz"))
        try:
            made = _zip(names, members) if kind == "zip" else _tar(names, members, chance)
        except (ValueError, UnicodeError, tarfile.TarError):  # a name that cannot even be written
            made = _zip(list(members), members)
        if chance.random() < 0.7:
            made = changed(made, chance)
        if kind == "tar.gz":
            made = gzip.compress(made, 1)
            made = changed(made, chance) if chance.random() < 0.3 else made
        path = folder / f"run.{kind}"
        path.write_bytes(made)
        return path

    return Target(_Unpacked(), place)


def _zip(names: list[str], members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in dict(zip(names, members.values(), strict=True)).items():
            archive.writestr(name, data)
    return out.getvalue()


def _tar(names: list[str], members: dict[str, bytes], chance: random.Random) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in zip(names, members.values(), strict=True):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if chance.random() < 0.1:
                info.type = chance.choice(_NO_FILES)
                info.linkname = chance.choice(("/etc/passwd", "..", name))
                info.size = 0
            archive.addfile(info, io.BytesIO(data) if info.size else None)
    return out.getvalue()
