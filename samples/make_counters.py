"""Writes the counter samples into ``counters/`` beside itself or a folder: ``python make_counters.py [folder]``.

Thirty synthetic seconds of two devices, as each monitoring tool would have logged them: a load starts, one clock drops
after twelve seconds because the device gets hot, memory fills up. Layouts follow the tools' documentation. The output
is deterministic; a test compares it.
"""

from __future__ import annotations

import json
import math
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

FIRST = datetime(2026, 3, 2, 14, 7, 30, 250_000, tzinfo=UTC)
SAMPLES, DEVICES, BLANK = 30, 2, 9223372036854775794
UUID = "GPU-5c3a9f10-0000-4000-8000-00000000000{}"


class Reading(NamedTuple):
    """One reading of a device: percent, MHz, W, degrees Celsius, MiB, kB/s."""

    at: datetime
    device: int
    busy: int
    memory_busy: int
    clock: int
    memory_clock: int
    power: float
    hot: int
    used: int
    sent: int
    received: int


def readings() -> list[Reading]:
    """One reading per second and device, in order of time."""
    made = []
    for second in range(SAMPLES):
        for device in range(DEVICES):
            load = 0 if second < 4 else 96 - 3 * device - second % 3
            throttled = device == 1 and second >= 12
            clock = 345 if not load else 1200 if throttled else 1980 - 15 * (second % 2)
            power = 71.5 if not load else 402.25 if throttled else 688.0 + 3.5 * math.sin(second)
            made.append(Reading(
                FIRST + timedelta(seconds=second), device, load, load // 3, clock, 2619, round(power, 2),
                34 + min(second, 20) * (2 + device), 1024 + (load > 0) * 512 * min(second, 24), 900 * load, 1200 * load,
            ))
    return made


def nvidia_query() -> str:
    """``nvidia-smi --query-gpu=timestamp,index,name,… --format=csv``: units in headers and values."""
    lines = ["timestamp, index, name, pstate, utilization.gpu [%], utilization.memory [%], memory.total [MiB], "
             "memory.used [MiB], clocks.current.sm [MHz], power.draw [W], temperature.gpu, fan.speed [%]"]  # fmt: skip
    for one in readings():
        lines.append(
            f"{one.at:%Y/%m/%d %H:%M:%S}.{one.at.microsecond // 1000:03}, {one.device}, NVIDIA H100 80GB HBM3, P0, "
            f"{one.busy} %, {one.memory_busy} %, 81559 MiB, {one.used} MiB, {one.clock} MHz, {one.power:.2f} W, "
            f"{one.hot}, [N/A]"
        )
    return "\n".join(lines) + "\n"


def nvidia_dmon() -> str:
    """``nvidia-smi dmon -s pucmt -o DT``: text with its two header lines repeated every twenty rows."""
    head = (
        "#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk     fb  "
        "rxpci  txpci\n"
        "#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %    MHz    MHz     MB   "
        "MB/s   MB/s"
    )
    lines = []
    for number, one in enumerate(readings()):
        if number % 20 == 0:
            lines.append(head)
        cells = (one.device, round(one.power), one.hot, "-", one.busy, one.memory_busy, 0, 0, one.memory_clock,
                 one.clock, one.used, one.received // 1000, one.sent // 1000)  # fmt: skip
        lines.append(f" {one.at:%Y%m%d}   {one.at:%H:%M:%S}" + "".join(f"{cell:>7}" for cell in cells))
    return "\n".join(lines) + "\n"


def dcgmi_dmon() -> str:
    """``dcgmi dmon -e 203,1002,100,150,155,252,1009``, which writes no timestamps."""
    names = ("GPUTL", "SMACT", "SMCLK", "TMPTR", "POWER", "FBUSD", "PCITX")
    head = "#Entity   " + "".join(f"{name:<14}" for name in names) + "\nID" + " " * 36 + "C             W"
    lines = []
    for number, one in enumerate(readings()):
        if number % 24 == 0:
            lines.append(head)
        share = "N/A" if not one.busy else f"{one.busy / 100 - 0.08:.3f}"
        cells = (one.busy, share, one.clock, one.hot, f"{one.power:.3f}", one.used, one.sent * 1000)
        lines.append(f"GPU {one.device}     " + "".join(f"{cell!s:<14}" for cell in cells).rstrip())
    return "\n".join(lines) + "\n"


def dcgm_exporter() -> str:
    """Output of the DCGM exporter, scraped every five seconds, with a timestamp after each sample."""
    fields = (
        ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", lambda one: one.clock),
        ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", lambda one: one.hot),
        ("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C).", lambda one: BLANK),
        ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", lambda one: f"{one.power:.6f}"),
        ("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", lambda one: one.used),
        ("DCGM_FI_PROF_SM_ACTIVE", "gauge", "The ratio of cycles an SM has at least 1 warp assigned.",
         lambda one: f"{one.busy / 100:.6f}"),
    )  # fmt: skip
    lines = []
    for name, kind, words, value in fields:
        lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
        for one in readings()[:: 5 * DEVICES] + readings()[1 :: 5 * DEVICES]:
            lines.append(
                f'{name}{{gpu="{one.device}",UUID="{UUID.format(one.device)}",device="nvidia{one.device}",'
                f'modelName="NVIDIA H100 80GB HBM3",Hostname="node-1"}} {value(one)} {_milliseconds(one.at)}'
            )
    return "\n".join(lines) + "\n"


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def range_query() -> str:
    """Response of Prometheus' ``/api/v1/query_range`` for one gauge and one ratio of both devices."""
    result = []
    for name, value in (("DCGM_FI_DEV_POWER_USAGE", lambda one: f"{one.power:g}"),
                        ("DCGM_FI_PROF_SM_ACTIVE", lambda one: f"{one.busy / 100:g}" if one.busy else "NaN")):
        for device in range(DEVICES):
            of = [one for one in readings() if one.device == device]
            labels = {"__name__": name, "gpu": str(device), "Hostname": "node-1", "instance": "node-1:9400"}
            result.append({"metric": labels, "values": [[one.at.timestamp(), value(one)] for one in of]})
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}) + "\n"


def rocm_smi() -> str:
    """``rocm-smi --showtemp --showpower --showuse --showmemuse --csv`` in a loop: a table per call, no timestamps."""
    head = ("device,Temperature (Sensor edge) (C),Temperature (Sensor junction) (C),Average Graphics Package Power (W),"
            "GPU use (%),GPU Memory Allocated (VRAM%),VRAM Total Used Memory (B)")  # fmt: skip
    lines = []
    rows = readings()
    for at in range(0, len(rows), DEVICES):
        lines.append(head)
        for one in rows[at : at + DEVICES]:
            lines.append(f"card{one.device},{one.hot}.0,{one.hot + 9}.0,{one.power},{one.busy},{one.memory_busy},"
                         f"{one.used << 20}")  # fmt: skip
        lines.append("")
    return "\n".join(lines)


def amd_smi() -> str:
    """``amd-smi monitor --csv -w 1``: a timestamp in seconds before each device."""
    lines = ["timestamp,gpu,power_usage,hotspot_temperature,memory_temperature,gfx_clk,gfx,mem,mem_clock,vram_used,"
             "vram_total,pcie_bw"]  # fmt: skip
    for one in readings():
        lines.append(f"{round(one.at.timestamp())},{one.device},{round(one.power)},{one.hot},N/A,{one.clock},{one.busy},"
                     f"{one.memory_busy},{one.memory_clock},{one.used},196592,N/A")  # fmt: skip
    return "\n".join(lines) + "\n"


def wide() -> str:
    """A user's own log in wide format: a time column and one column per counter and device."""
    lines = ["time,host_cpu_percent,loss,gpu0_power_w,gpu1_power_w"]
    rows = readings()
    for second in range(SAMPLES):
        a, b = rows[2 * second], rows[2 * second + 1]
        lines.append(f"{a.at.isoformat()},{12.5 + second % 4},{2.5 * 0.97**second:.4f},{a.power},{b.power}")
    return "\n".join(lines) + "\n"


def long() -> str:
    """A user's own log in long format: one row per sample with counter, device, value and unit."""
    lines = ["timestamp;device;metric;value;unit"]
    for one in readings():
        for metric, value, unit in (("sm_clock", one.clock, "MHz"), ("memory_used", one.used, "MiB"),
                                    ("memory_temperature", "N/A", "C")):
            lines.append(f"{_milliseconds(one.at)};GPU {one.device};{metric};{value};{unit}")
    return "\n".join(lines) + "\n"


def files() -> dict[str, str]:
    """Content of every file by name."""
    return {
        "nvidia_smi_query.csv": nvidia_query(), "nvidia_smi_dmon.txt": nvidia_dmon(), "dcgmi_dmon.txt": dcgmi_dmon(),
        "dcgm_exporter.prom": dcgm_exporter(), "prometheus_range.json": range_query(), "rocm_smi.csv": rocm_smi(),
        "amd_smi_monitor.csv": amd_smi(), "counters_wide.csv": wide(), "counters_long.csv": long(),
    }


def main(folder: Path) -> None:
    """Write all files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "counters")
