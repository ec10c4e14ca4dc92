"""Small files that ask for a lot: refused with the limit's name and the option that raises it, or answered in time."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from warplens.cli.main import main
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest import limits
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.kineto.document import open_document

EVENT = '{"ph":"X","cat":"kernel","name":"k%d","ts":%d,"dur":1,"pid":0,"tid":7,"args":{"stream":7,"device":0%s}}'
HEAD = '{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"G","numSms":1}],'


def trace(path: Path, inside: str = "", events: int = 3, more: str = "") -> Path:
    rows = ",".join(EVENT % (n, n, more.replace("N", str(n))) for n in range(events))
    path.write_text(f'{HEAD}{inside}"traceEvents":[{rows}]}}')
    return path


def opened(path: Path) -> int:
    (run,) = open_run(str(path), use_cache=False, compiled=False)
    return run.kernels.collect().height


def lower(monkeypatch: pytest.MonkeyPatch, name: str, value: int) -> None:
    monkeypatch.setenv(limits.VARIABLE, f"{name}={value}")


@pytest.mark.parametrize("name, inside, events, more, value", [
    ("header", '"x":[' + "[]," * 1_000_000 + "[]],", 3, "", 2 << 20),
    ("header-keys", "".join(f'"k{n}":1,' for n in range(50)), 3, "", 40),
    ("names", "", 50, "", 20),
    ("name-bytes", "", 50, "", 100),
    ("ranks", "", 20, ',"rank":N', 10),
    ("devices", "", 20, ',"device":N', 10),
])
def test_what_passes_a_limit_is_refused_with_its_name_and_opens_once_it_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, inside: str, events: int, more: str, value: int
) -> None:
    path = trace(tmp_path / "trace.json", inside, events, more)
    lower(monkeypatch, name, value)
    with pytest.raises(Unreadable) as refused:
        opened(path)
    assert f"limit '{name}'" in refused.value.reason and f"--limit {name}={2 * value}" in refused.value.advice
    lower(monkeypatch, name, limits.LIMITS[name].default)
    assert opened(path) == events


def test_what_unfolds_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(f'{HEAD}"x":"{" " * 3_000_000}","traceEvents":[{EVENT % (1, 1, "")}]}}'.encode()))
    assert opened(path) == 1
    monkeypatch.setattr(limits, "UNCOUNTED_BYTES", 1 << 20)
    with pytest.raises(Unreadable, match="limit 'unfolded'"):
        opened(path)
    lower(monkeypatch, "unfolded", 5000)
    assert opened(path) == 1


def test_the_command_raises_a_limit_and_refuses_one_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lower(monkeypatch, "names", 20)
    path = str(trace(tmp_path / "trace.json", events=50))
    question = ["report", path, "--view", "kernels", "--no-cache", "--format", "json"]
    assert main(question) == 3
    assert "--limit names=40" in capsys.readouterr().err
    assert main([*question, "--limit", "names=1k"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 50
    for wrong in ("nothing=3", "names=many", "names"):
        assert main([*question, "--limit", wrong]) == 2
        assert json.loads(capsys.readouterr().err)["error"]["kind"] == "usage"


def test_a_header_is_passed_over_without_being_made_into_objects() -> None:
    data = (HEAD + '"x":[' + "[]," * 600_000 + '[]],"y":[{}],"traceEvents":[' + EVENT % (1, 1, "") + "]}").encode()

    class Once:
        def __init__(self) -> None:
            self.left = data

        def read(self, size: int) -> bytes:
            given, self.left = self.left[:size], self.left[size:]
            return given

    tracemalloc.start()
    document = open_document(Once(), 1 << 20)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert document.has_events and document.values["y"] == [{}] and document.values["schemaVersion"] == 1
    assert most < 8 * len(data), "a list of lists takes sixty times its text"
