"""``warplens record`` as it is typed: what is printed, with which exit status, and what is left behind."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from kineto_client import document

from warplens.cli.main import main
from warplens.cli.record import kineto, outcome, road, tools
from warplens.cli.record.live import Live, Rounds
from warplens.cli.record.road import Ask, Result
from warplens.loaders import schema
from warplens.loaders.trace import Device, Info, Trace

JOB = str(Path(__file__).with_name("kineto_client.py"))
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto, "TICK", 0.01)
    monkeypatch.setattr(road, "_QUIET", 0.05)


def last_line(captured: Captured) -> tuple[dict[str, Any], str]:
    out, err = captured.readouterr()
    return json.loads(out.splitlines()[-1]), err


def test_a_command_is_recorded_to_its_end(tmp_path: Path, capsys: Captured) -> None:
    words = ["--format", "json", "-o", str(tmp_path), "--after", "0.1", "--", sys.executable, JOB, "40"]
    assert main(["record", *words]) == 0
    told, err = last_line(capsys)
    assert told["asked"] == 1 and told["job"] == 0 and told["dropped"] == 0
    assert json.loads(Path(told["written"][0]).read_text()) == json.loads(document())
    assert "busy" in err and "the command exited with 0" in err


def test_the_path_and_the_first_sentence_are_printed(tmp_path: Path, capsys: Captured) -> None:
    assert main(["record", "-o", str(tmp_path), "--after", "0", "--", sys.executable, JOB, "20"]) == 0
    path, sentence = capsys.readouterr().out.splitlines()
    assert Path(path).parent == tmp_path and Path(path).is_file()
    assert "GPU 0 busy 60%" in sentence


def test_a_job_that_dies_while_it_writes_is_status_1(tmp_path: Path, capsys: Captured) -> None:
    words = ["record", "--format", "json", "-o", str(tmp_path), "--after", "0", "--", sys.executable, JOB, "40", "half"]
    assert main(words) == 1
    told, err = last_line(capsys)
    assert told["written"] == [] and told["asked"] == 1 and told["job"] == -9
    error = json.loads(err.splitlines()[-1])["error"]
    assert error["kind"] == "failed" and "ended while it was writing" in error["message"]


def test_a_command_that_fails_keeps_its_status_to_itself(tmp_path: Path, capsys: Captured) -> None:
    assert main(["record", "-o", str(tmp_path), "--", sys.executable, "-c", "raise SystemExit(7)"]) == 1
    err = capsys.readouterr().err
    assert "the command exited with 7 before it asked" in err and "the command exited with 7\n" in err


@pytest.mark.parametrize(("words", "status", "said"), [
    ([], 2, "name what to record"), (["--"], 2, "name what to record"),
    (["train.py"], 2, "warplens record -- train.py"),
    (["12", "--", "true"], 2, "not both"), (["--nsys", "12"], 2, "run a command"), (["--ms", "0", "12"], 2, "--ms"),
    (["--ms", "5", "-n", "3", "12"], 2, "not allowed with"), (["--keep", "3", "12"], 2, "--every"),
    (["--every", "0", "12"], 2, "a second or more"), (["--after", "nan", "12"], 2, "seconds"),
    (["-n", "3", "profiler://a:1"], 2, "counts no steps"), (["--socket", "/x", "http://a"], 2, "--socket"),
    (["--socket", "/" + "x" * 60, "--", "true"], 2, "54 characters"), (["ftp://host"], 2, "neither"),
    (["profiler://host"], 2, "profiler://127.0.0.1:9999"), (["4194999"], 3, "there is no process 4194999"),
    (["--", "/no/such/program"], 3, "no such file"),
])
def test_what_cannot_be_done_is_said_in_one_line(
    words: list[str], status: int, said: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["record", *words]) == status
    out, err = capsys.readouterr()
    assert said in err and out == "" and len(err.splitlines()) == 1


def test_an_unprepared_process_is_status_3_and_gets_nothing(tmp_path: Path, capsys: Captured) -> None:
    with subprocess.Popen(["sleep", "60"]) as job:
        assert main(["record", "--format=json", "-o", str(tmp_path), str(job.pid)]) == 3
        error = json.loads(capsys.readouterr().err)["error"]
        assert error["message"] == f"process {job.pid} was not started to be recorded" and job.poll() is None
        job.kill()


def test_a_folder_that_libkineto_cannot_be_told(tmp_path: Path, capsys: Captured) -> None:
    assert main(["record", "-o", str(tmp_path / "a#b"), "--", "true"]) == 2
    assert "libkineto" in capsys.readouterr().err and not (tmp_path / "a#b").exists()


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_signal_takes_the_socket_away_and_leaves_the_job() -> None:
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        script = "import sys; print('up', flush=True); sys.stdin.read()"
        recorder = subprocess.Popen(
            [sys.executable, "-m", "warplens", "record", "-o", f"{place}/out", "--", sys.executable, "-c", script],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "XDG_RUNTIME_DIR": place})
        assert recorder.stdout is not None and recorder.stderr is not None and recorder.stdin is not None
        assert recorder.stdout.readline() == b"up\n"
        children = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
        assert [*Path(place).glob("warplens-record-*/dynolog")]
        recorder.send_signal(signal.SIGTERM)
        assert recorder.wait() == 128 + signal.SIGTERM
        assert not [*Path(place).glob("warplens-record-*")]
        assert len(children) == 1 and Path(f"/proc/{children[0]}").exists()
        for stream in (recorder.stdin, recorder.stdout, recorder.stderr):
            stream.close()


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!{sys.executable}\n{text}")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


NSYS = """
import subprocess, sys
options, rest = [one for one in sys.argv[2:] if one.startswith("--")], [one for one in sys.argv[2:] if "--" not in one]
assert sys.argv[1] == "profile" and "--kill=none" in options, sys.argv
out = next(one.partition("=")[2] for one in options if one.startswith("--output"))
sys.stdout.write(" ".join(options) + "\\n")
open(out + ".json", "w").write(open(rest[-1]).read())
sys.exit(subprocess.call(rest[:-1]))
"""


def test_nsys_runs_the_command_and_does_not_end_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "nsys", NSYS)
    (tmp_path / "made.json").write_text(document())
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    words = ["--nsys", "--ms", "1500", "--after", "3", "-o", str(tmp_path / "out"), "--", "false",
             str(tmp_path / "made.json")]
    assert main(["record", *words]) == 0
    out, err = capfd.readouterr()
    assert "--duration=2" in out and "--delay=3" in out and "GPU 0 busy 60%" in out
    assert "the command exited with 1" in err


def test_rocprof_runs_the_command(tmp_path: Path, capfd: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", "rocprofv3", "import sys; print(*sys.argv[1:])")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert main(["record", "--rocprof", "--ms", "500", "-o", str(tmp_path / "out"), "--", "prog", "--lr", "3"]) == 1
    out, err = capfd.readouterr()
    assert "--sys-trace" in out and "0:500:1 --collection-period-unit msec -- prog --lr 3" in out
    assert "rocprof wrote nothing" in err


@pytest.mark.parametrize("tool", ["nsys", "rocprof"])
def test_a_tool_that_is_not_there(
    tool: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["record", f"--{tool}", "-o", str(tmp_path), "--", "true"]) == 3
    assert f"{tool} is not installed" in capsys.readouterr().err


XPROF = """
import pathlib, shutil
def trace(address, folder, workers, datasets, ms, attempts, options):
    assert address == "127.0.0.1:9" and ms == 40, (address, ms)
    place = pathlib.Path(folder) / "plugins" / "profile" / "2026"
    place.mkdir(parents=True)
    shutil.copy({sample!r}, place / "host.xplane.pb")
"""


def test_a_jax_server_is_asked_through_xprof(
    tmp_path: Path, samples: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "lib" / "xprof" / "convert"
    package.mkdir(parents=True)
    (package / "_pywrap_profiler_plugin.py").write_text(XPROF.format(sample=str(samples / "xla_gpu.xplane.pb")))
    monkeypatch.setattr(tools, "_python_with_xprof", lambda: sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    words = ["record", "--format", "json", "--ms", "40", "-o", str(tmp_path / "out"), "profiler://127.0.0.1:9"]
    assert main(words) == 0
    told, _ = last_line(capsys)
    assert [Path(one).name for one in told["written"]] == ["host.xplane.pb"] and told["job"] is None
    (package / "_pywrap_profiler_plugin.py").write_text("def trace(*_): raise RuntimeError('refused \\x1b[2J')")
    assert main(words) == 1
    told, err = last_line(capsys)
    assert told["written"] == [] and "gave no profile: RuntimeError: refused" in err and "\x1b" not in err


def test_without_xprof_it_is_said_what_to_install(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["record", "-o", str(tmp_path), "profiler://127.0.0.1:9"]) == 3
    assert "needs pip install xprof" in capsys.readouterr().err


def a_run(kernels: int = 0, runtime: tuple[str, ...] = (), ops: int = 0, devices: bool = False) -> Trace:
    calls = [{"start_ns": 10 * at, "dur_ns": 5, "name": name, "kind": "runtime" if name in runtime else "op"}
             for at, name in enumerate((*runtime, *["aten::mm"] * ops))]
    rows = [{"start_ns": 10 * at, "dur_ns": 5, "name": "k", "kind": "kernel"} for at in range(kernels)]
    info = Info("x", "x", "kineto", devices=(Device("GPU 0", "Made-up", {}),) if devices else ())
    return Trace(info, **{
        name: schema.conform(name, pl.DataFrame(those).lazy()) for name, those in (("host", calls), ("kernels", rows))
        if those})


@pytest.mark.parametrize(("run", "said"), [
    (a_run(kernels=1), ""), (a_run(), "no operator ran"), (a_run(ops=2), "the process has no GPU"),
    (a_run(ops=2, devices=True), "switched off"), (a_run(runtime=("cudaMalloc",), devices=True), "launched none"),
    (a_run(runtime=("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel")), "although 3 were launched"),
    (a_run(runtime=("hipGraphLaunch",), devices=True), "although 1 graphs were launched"),
])
def test_why_no_kernel_was_recorded(run: Trace, said: str) -> None:
    reason = outcome.why_no_kernel(run)
    assert said in reason and bool(reason) == bool(said)


def test_a_file_that_does_not_open_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[1, 2")
    assert outcome.read(tmp_path / "a.json").fault
    assert not road.is_whole(tmp_path / "a.json")


class Script:
    """A road on which every recording is a file of its own, until ``most`` of them."""

    def __init__(self, out: Path, most: int) -> None:
        import threading

        self.stopping, self.dropped, self.exit_status = threading.Event(), 0, None
        self.out, self.most, self.number, self.closed = out, most, 0, False

    @property
    def over(self) -> str:
        return "the job has ended" if self.number >= self.most else ""

    def record(self, ask: Ask) -> Result:
        self.number += 1
        if self.number == 2:
            return Result([], 1, "it was busy")
        file = ask.out / f"run-{self.number}.json"
        file.write_text(document())
        return Result([file], 1)

    def idle(self, seconds: float) -> None:
        """No time passes."""

    def close(self) -> None:
        self.closed = True


def rounds(out: Path, most: int, every: float | None, keep: int) -> tuple[Rounds, Script]:
    script = Script(out, most)
    return Rounds(script, Ask(out, 1, None, 0.0, False, 1.0), every, keep), script


def test_the_newest_recordings_are_kept(tmp_path: Path) -> None:
    made, _ = rounds(tmp_path, 6, 0.0, 3)
    (tmp_path / "mine.json").write_text("{}")
    made.next()
    while made.wait():
        made.next()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["mine.json", "run-4.json", "run-5.json", "run-6.json"]
    assert made.asked == 6 and [one.path.name for one in made.recordings] == ["run-4.json", "run-5.json", "run-6.json"]


def test_the_app_is_told_of_each_recording_and_of_the_end(tmp_path: Path) -> None:
    made, script = rounds(tmp_path, 3, None, 20)
    made.next()
    live, told = Live(made, script), []
    heard = script.stopping.__class__()

    def on_recorded(path: Path | None, reason: str) -> None:
        told.append((path and path.name, reason))
        heard.set()

    live.start(on_recorded)
    for _ in range(2):
        assert live.again() == ""
        assert heard.wait(20)
        heard.clear()
    live._thread.join(20)  # type: ignore[union-attr]
    assert told == [(None, "it was busy"), ("run-3.json", ""), (None, "the job has ended")]
    assert live.again() == "the job has ended"
    live.stop()
    assert script.closed
