"""Real PyTorch and JAX on the CPU. ``WARPLENS_TORCH`` and ``WARPLENS_JAX`` name Pythons that have torch, and jax with
xprof; without them the tests are skipped, as both are too large for the tests' environment."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warplens.cli.main import main

pytestmark = pytest.mark.deep
TRAIN = """
import time, torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    model(torch.randn(8, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.002)
"""
SERVE = """
import time, jax, jax.numpy as jnp
jax.profiler.start_server({port})
step, x = jax.jit(lambda x: (x @ x).sum()), jnp.ones((64, 64))
step(x).block_until_ready()
print("up", flush=True)
while True:
    step(x).block_until_ready()
"""


def python(name: str) -> str:
    if name not in os.environ:
        pytest.skip(f"{name} names no Python")
    return os.environ[name]


@pytest.fixture
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield name


@contextlib.contextmanager
def ending(job: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The job, which ends with the test however that ends."""
    with job:
        try:
            yield job
        finally:
            job.kill()


def events(told: dict[str, Any]) -> list[dict[str, Any]]:
    document = json.loads(Path(told["written"][0]).read_text())
    return [one for one in document["traceEvents"] if one.get("ph") == "X"]


@pytest.mark.parametrize("length", [("--ms", "300"), ("-n", "3")])
def test_a_pytorch_command(length: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--format", "json", "-o", str(tmp_path), *length, "--", python("WARPLENS_TORCH"), "-c"]
    assert main(["record", *words, TRAIN.format(seconds=25)]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out.splitlines()[-1])
    assert told["job"] == 0 and "the process has no GPU" in err
    assert any(one["name"] == "aten::addmm" for one in events(told))


def test_a_pytorch_process_twice(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepared = {**os.environ, "KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": folder}
    with ending(subprocess.Popen([python("WARPLENS_TORCH"), "-c", TRAIN.format(seconds=300)], env=prepared)) as job:
        while not [*Path(folder).iterdir()]:  # its socket, once PyTorch is imported
            time.sleep(0.1)
        for _ in range(2):
            assert main(["record", "--format", "json", "-o", str(tmp_path), "--ms", "200", str(job.pid)]) == 0
            told = json.loads(capsys.readouterr().out.splitlines()[-1])
            assert events(told) and told["job"] is None
        assert job.poll() is None and not Path(folder, "dynolog").exists()


def test_a_jax_program(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    jax = python("WARPLENS_JAX")
    monkeypatch.setenv("PATH", f"{Path(jax).parent}:{os.environ['PATH']}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with ending(subprocess.Popen([jax, "-c", SERVE.format(port=port)], stdout=subprocess.PIPE)) as job:
        assert job.stdout is not None and job.stdout.readline() == b"up\n"
        assert main(["record", "--format", "json", "-o", str(tmp_path), f"profiler://127.0.0.1:{port}"]) == 0
        told = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert told["written"][0].endswith(".xplane.pb") and job.poll() is None
