"""What a recording costs a PyTorch job, and how long it takes to come: ``record.py PYTHON [RECORDINGS]``.

PYTHON has torch; the job trains a small model on one core of the CPU and writes down the time and the CPU time of every
step. It is recorded several times with ``warplens record PID``, without and with ``--stack``. Printed for each: seconds
from the command to its last line, steps per second of CPU time before, during and after the recorded time.
CPU time, because steps per second of wall time depend on what else the machine does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from pathlib import Path

WARPLENS = [sys.executable, "-m", "warplens", "record", "--format", "json"]
JOB = """
import sys, time, torch
torch.set_num_threads(1)
layers = [layer for _ in range(8) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())]
model, data = torch.nn.Sequential(*layers), torch.randn(64, 256)
optimizer, log = torch.optim.SGD(model.parameters(), lr=0.01), open(sys.argv[1], "w", buffering=1)
while True:
    model(data).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    log.write(f"{time.time()} {time.thread_time()}\\n")
"""


def steps_per_second(steps: list[tuple[float, float]], begin: float, end: float) -> float:
    """Steps per second of CPU time between two moments."""
    times = [moment for moment, _ in steps]
    first, last = bisect(times, begin), bisect(times, end) - 1
    return (last - first) / (steps[last][1] - steps[first][1]) if last > first else float("nan")


def window(file: Path) -> tuple[float, float, int]:
    """Begin and end of what was recorded, in s since 1970, and the number of operators."""
    document = json.loads(file.read_text())
    times = [one["ts"] / 1e6 for one in document["traceEvents"] if one.get("cat") == "cpu_op"]
    zero = document["baseTimeNanoseconds"] / 1e9
    return zero + min(times), zero + max(times), len(times)


def main() -> None:
    """Run the job and record it."""
    python, number = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    print(f"{'':8} {'asked':>8} {'before':>8} {'during':>8} {'after':>8}  steps/s of CPU time, operators recorded")
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        log, sockets = Path(place, "steps"), Path(place, "s")
        sockets.mkdir(mode=0o700)
        job = subprocess.Popen([python, "-c", JOB, str(log)], stderr=subprocess.DEVNULL, env={
            **os.environ, "KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": str(sockets)})
        try:
            while not log.exists() or not [*sockets.iterdir()]:
                time.sleep(0.1)
            time.sleep(3)
            for options in [[]] * number + [["--stack"]] * number:
                asked = time.monotonic()
                done = subprocess.run([*WARPLENS, "-o", f"{place}/out", *options, str(job.pid)], capture_output=True,
                                      text=True, check=True)
                took = time.monotonic() - asked
                time.sleep(2)
                begin, end, operators = window(Path(json.loads(done.stdout)["written"][0]))
                steps = [(float(a), float(b)) for a, b in map(str.split, log.read_text().splitlines()[:-1])]
                rates = [steps_per_second(steps, *span) for span in (
                    (begin - 3, begin - 1), (begin, end), (end + 0.1, end + 2))]
                print(f"{' '.join(options):8} {took:7.1f}s {rates[0]:8.0f} {rates[1]:8.0f} {rates[2]:8.0f}  "
                      f"{rates[1] / rates[0] - 1:+.0%}, {operators:,}")
        finally:
            job.kill()
            job.wait()


if __name__ == "__main__":
    main()
