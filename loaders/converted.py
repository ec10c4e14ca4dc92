"""A run's tables as Parquet files, written by ``warplens convert``: a folder that opens as the original run.

``warplens.json`` next to the tables holds the recording's ``Info`` and is written last. The subfolder ``worker-1`` is
the second run of an input that held two.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Raw, Struct
from msgspec.json import decode

from .errors import Unreadable
from .loader import FormatLoader, Job
from .trace import TABLE_NAMES, Trace

DESCRIPTION = "warplens.json"
MARK = b'{"format":"warplens-tables"'  # First bytes of the description.
SECOND = "worker-1"
_AGAIN = "Run `warplens convert` again with the same recording."


class _Description(Struct, frozen=True):
    format: str
    info: Raw


def describe(folder: Path, run: Trace) -> Path:
    """Write the description that makes the tables in ``folder`` a run; returns its path."""
    from .ingest.store import info_to_json

    file = folder / DESCRIPTION
    file.write_bytes(MARK + b',"info":' + info_to_json(run.info) + b"}\n")
    return file


class ConvertedLoader(FormatLoader):
    """Loader for converted tables, one Parquet file each."""

    name = "converted"
    title = "A run's tables (warplens convert): one Parquet file per table"
    suffixes = (".json",)
    version = 1
    fills = TABLE_NAMES
    directory_file = DESCRIPTION

    def sniff(self, head: bytes) -> bool:
        """Accept a file that begins with ``MARK``."""
        return head.startswith(MARK)

    def companions(self, path: Path) -> tuple[Path, ...]:
        """The Parquet files of all tables, of the second run too."""
        return tuple(file for folder in _folders(path) for file in sorted(folder.iterdir()) if file != path)

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace, or two if there is a second run. Raises Unreadable."""
        return tuple(_run(folder / DESCRIPTION, job.workspace / name)
                     for folder, name in zip(_folders(job.path), ("", SECOND), strict=False))


def _folders(path: Path) -> list[Path]:
    return [folder for folder in (path.parent, path.parent / SECOND) if (folder / path.name).is_file()]


def _run(path: Path, workspace: Path) -> Trace:
    import polars as pl
    from msgspec import DecodeError
    from msgspec.structs import replace

    from . import parquet_check, schema
    from .ingest.store import info_from_json, sink

    try:
        info = info_from_json(bytes(decode(path.read_bytes(), type=_Description).info))
        workspace.mkdir(exist_ok=True)
        tables = {}
        for name in TABLE_NAMES:
            if (file := path.parent / f"{name}.parquet").is_file():
                parquet_check.check(file)
                sink(schema.conform(name, pl.scan_parquet(file, glob=False)), workspace / f"{name}.arrow")
                tables[name] = schema.conform(name, pl.scan_ipc(workspace / f"{name}.arrow"))
        for name in {*tables} & {"kernels", "host", "cycles"}:
            if (tables[name].select(pl.col("start_ns", "dur_ns").min() < 0)).collect().row(0).count(True):
                raise ValueError(f"{name} with negative start times or durations")
        if "kernels" in tables and not tables["kernels"].select(
                (pl.col("index") == pl.int_range(pl.len())).all()).collect().item():
            raise ValueError("kernels that are not in launch order")
        return Trace(replace(info, source=str(path.parent))).with_tables(**tables)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, DecodeError, OSError, ValueError, KeyError,
            TypeError, AttributeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:160]
        raise Unreadable(path, f"belongs to converted tables that are damaged ({first})", _AGAIN) from None


LOADER = ConvertedLoader()
