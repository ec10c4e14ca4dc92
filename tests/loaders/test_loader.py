"""What a loader may say of its format, whoever brings it: one class has the defaults."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from warplens.loaders import registry, schema
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.loader import FormatLoader, Job
from warplens.loaders.trace import Info, Trace


class Least(FormatLoader):
    """A loader of another package with no more than it must have."""

    name, title, suffixes, version = "least", "the least", (".least",), 1

    def sniff(self, head: bytes) -> bool:
        return head.startswith(b"LEAST")

    def load(self, job: Job) -> tuple[Trace, ...]:
        return (Trace(Info(str(job.path), job.path.name, "least")),)


class More(Least):
    """One that says what a folder of its format is known by, and where in the file an event is."""

    directory_file = "main.least"

    def arguments(self, path: Path, offset: int, name: str) -> dict[str, object]:
        return {"at": offset}


def test_every_loader_of_ours_derives_from_the_contract() -> None:
    assert all(isinstance(loader, FormatLoader) for loader in registry.ours())


def test_what_another_package_does_not_say_is_the_default(tmp_path: Path) -> None:
    least = Least()
    assert (least.name, least.version, least.sniff(b"LEAST")) == ("least", 1, True)
    for name in ("ready_tables", "directory_file", "directory_within", "twins", "folder_is_one_run", "one_recording"):
        assert getattr(least, name) == getattr(FormatLoader, name), name
    assert least.companions(tmp_path) == () and least.leads(tmp_path) and least.arguments(tmp_path, 0, "x") is None
    assert not least.reads_other_files


def test_what_is_no_loader_is_passed_over_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry, "extensions", lambda kind: {"mine": Least(), "other": object()})
    installed = registry.installed.__wrapped__()
    assert [loader.name for loader in installed] == ["least"] and "'other'" in capsys.readouterr().err


def test_what_another_package_says_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "installed", lambda: (More(),))
    for name in ("aside.least", "main.least"):
        (tmp_path / name).write_text("LEAST")
    (run,) = open_run(str(tmp_path), use_cache=False)
    assert run.info.label == "main.least"
    (loader,) = registry.claims(b"LEAST")
    assert loader.arguments(tmp_path, 7, "x") == {"at": 7}


@pytest.mark.parametrize(("place", "found"), [(0, True), (1_999, True), (None, False)])
def test_a_value_is_found_wherever_it_is(place: int | None, found: bool) -> None:
    names = ["gemm" if row == place else None for row in range(2_000)]
    kernels = schema.conform("kernels", pl.LazyFrame({"name": names}, schema={"name": pl.String}))
    run = Trace(Info("t", "t", "test")).with_tables(kernels=kernels)
    assert run.has("kernels") and run.has("kernels.name") == run.has("kernels.name=gemm") == found
    assert not run.has("kernels.name=copy") and not run.has("kernels.grid")
