"""Outputs are whole or what they were before, whatever ends the writer; files that a recording names are below it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from warplens.loaders import files
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.event_arguments import file_of
from warplens.loaders.trace import Info


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_an_error_while_writing_leaves_the_old_output(tmp_path: Path) -> None:
    (output := tmp_path / "report.md").write_text("last night's")

    def pieces() -> Any:
        yield b"half"
        raise ValueError

    with pytest.raises(ValueError):
        files.write(output, pieces())
    assert output.read_text() == "last night's" and names(tmp_path) == ["report.md"]


def test_a_writer_that_is_killed_leaves_the_old_output_and_the_next_one_tidies(tmp_path: Path) -> None:
    (output := tmp_path / "report.md").write_text("last night's")
    writer = (
        "import os, signal, sys\nfrom warplens.loaders import files\nwith files.replacing(sys.argv[1]) as file:\n"
        "    file.write(b'half'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", writer, str(output)]).returncode == -9
    assert output.read_text() == "last night's" and len(names(tmp_path)) == 2
    files.write(output, [b"new"])
    assert output.read_text() == "new" and names(tmp_path) == ["report.md"]


def test_a_full_disk_is_an_error_and_leaves_the_old_output(tmp_path: Path, samples: Path) -> None:
    (output := tmp_path / "launches.csv").write_text("last night's")
    command = (
        "import resource, sys; from warplens.cli.main import main; resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50));"
        "sys.exit(main(sys.argv[1:]))"
    )
    words = ["report", str(samples / "kineto.pt.trace.json"), "--view", "launches", "--format", "csv", "--no-cache"]
    done = subprocess.run([sys.executable, "-c", command, *words, "-o", str(output)], capture_output=True, text=True)
    assert done.returncode in (2, 3) and len(done.stderr.splitlines()) == 1
    assert output.read_text() == "last night's" and names(tmp_path) == ["launches.csv"]


def test_a_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    arrived: list[bytes] = []
    reader = threading.Thread(target=lambda: arrived.append(pipe.read_bytes()))
    reader.start()
    files.write(pipe, [b"a", b"b"])
    reader.join()
    assert arrived == [b"ab"] and files.is_stream(pipe)


@pytest.mark.parametrize("name", ["/etc/hostname", "../secret", "link", "folder"])
def test_a_folder_names_no_file_outside_itself(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("{}")
    given = tmp_path / "given"
    (given / "folder").mkdir(parents=True)
    (given / "link").symlink_to(tmp_path / "secret")
    (given / "rank0.json").write_text("{}")
    info = Info(str(given), "given", "kineto", facts={"files": {"0": name, "1": "rank0.json"}})
    with pytest.raises(Unreadable):
        file_of(info, 0)
    assert file_of(info, 1) == str(given / "rank0.json")
