"""A trace that attacks in everything it can say, and what may reach a terminal that shows it.

``acting`` takes all bytes a terminal received and knows the sequences of the app by their exact shape, independently of
the app's own filter; what is left over came from the trace. The attacks use numbers and modes the app never does, some
of them in sequences of a shape the app does send, so that the filter alone would let them through.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ATTACKS = (
    "\x1b]0;PWNED\x07title", "\x1b]2;PWNED\x1b\\st", "\x1b[66;6H\x1b[666mpen", "\x9b31mC1", "\x9d0;PWNED\x9cosc",
    "\x90q\x9cdcs", "\x1b]52;c;RVZJTA==\x07clip", "\x1b]22;evil\x07shape", "\x1bP\x1b]52;c;RVZJTA==\x07\x1b\\pass",
    "\x1b[?1047h\x1bcreset", "a\x08\x08\x7fback", "tab\tnew\nline\rreturn\x0cform\x00nul", "\u202eevil\u2066iso",
    "\ufeffbom\u200bzero", "[red]markup[/red]", "[/nope]", "[@click=app.bell]click[/]", "[b", "\\[esc", "|`*_<b>pipe",
    "=cmd|' /C calc'!A0", "核函数" * 12, "e\u0301" * 30, "void ns::k<\x1b[666mT, [red]>(\x9b31m)" + "x" * 5000,
)
FILE = "evil\x1b]0;PWNED\x07\x1b[666m[red]file[bold]\u202e\x9b31m\n\udcff.json"
"""The name of a file, with a line feed and a byte that is no UTF-8."""
SHOWN_FILE = "[red]file[bold]"

_OWN = re.compile(
    r"""
    \x1b\[(?P<row>\d*)(?:;\d+)?H
    | \x1b\[(?P<pen>[0-9;]*)m
    | \r\x1b\[K  # a line of progress, beside the plain commands
    | \x1b\[\d*[CKLM] | \x1b\[2J | \x1b\[\d+;\d+r | \x1b\[r
    | \x1b\[\?(?:7|25|1000|1002|1003|1004|1006|1015|1016|1049|2004|2026|2048)[hl]
    | \x1b\[\?(?:2026|2048)\$p
    | \x1b\[[<>]\d*u | \x1b\[6n
    | \x1b\]22;(?:default|pointer|text)?\x07
    | \x1b\]52;c;(?P<copied>[A-Za-z0-9+/=]*)\x07
    """,
    re.VERBOSE,
)
_PEN = re.compile(r"(?:[0-9]|2[2-9]|[34][0-79]|9[0-7]|10[0-7]|[34]8;5;\d{1,3}|[34]8;2;\d{1,3};\d{1,3};\d{1,3})?(?:;|$)")
_ACTS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


def acting(data: bytes, height: int = 40) -> list[str]:
    """Everything received that acts and is not the app's own; line feeds come as the terminal's driver gives them."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return [f"no UTF-8: {data[error.start - 20 : error.start + 20]!r}"]
    found: list[str] = []

    def take(match: re.Match[str]) -> str:
        row, pen = match["row"], match["pen"]
        if (row and int(row) > height) or (pen and _PEN.sub("", pen)):
            found.append(match[0])
        return ""

    rest = re.sub("\r+\n", "", _OWN.sub(take, text))
    found += [rest[max(0, match.start() - 30) : match.end() + 30] for match in _ACTS.finditer(rest)]
    return found


def copies(data: bytes) -> list[str]:
    """What went to the clipboard, as base64."""
    return [match["copied"] for match in _OWN.finditer(data.decode()) if match["copied"] is not None]


def write_trace(path: Path, slow: float = 1.0) -> Path:
    """A Kineto trace of eight steps whose every string attacks; one string holds raw control bytes."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": name, "pid": pid, "tid": 0, "ts": 0, "args": {key: attack}}
        for name, key, attack in zip(
            ("process_name", "process_labels", "thread_name"), ("name", "labels", "name"), ATTACKS, strict=False
        )
        for pid in (1, 0)
    ]
    now, number = 1000.0, 0
    for step in range(8):
        begin = now
        for at, attack in enumerate(ATTACKS):
            number += 1
            span = (20 + 3 * at + step % 3) * (slow if at < 3 else 1)
            shape = {"grid": [at + 1, 1, 1], "block": [128, 1, 1], "correlation": number, "stream": 7, "device": 0}
            link = {"correlation": number, "External id": number}
            events += [
                _slice("cpu_op", f"aten::{attack}", now, 18, External_id=number),
                _slice("cuda_runtime", f"launch {attack}", now + 2, 5, **link),
                _slice("kernel" if at != 5 else "gpu_memcpy", attack, now + 10, span, pid=0, tid=7, **shape),
            ]
            now += 20 + span
        events.append(_slice("user_annotation", f"ProfilerStep#{step} {ATTACKS[2]}", begin, now - begin))
        events.append(_slice("user_annotation", ATTACKS[step], begin, (now - begin) / 2))
        events.append(_slice(ATTACKS[step], ATTACKS[step], begin, 1))
        now += 30
    text = json.dumps({
        "schemaVersion": 1, "traceName": ATTACKS[0], "cupti_version": ATTACKS[2], "host_name": ATTACKS[3],
        "deviceProperties": [{"id": 0, "name": ATTACKS[2] + ATTACKS[14] + ATTACKS[12], "numSms": 8}],
        "distributedInfo": {"backend": ATTACKS[0], "rank": 0, "world_size": 1}, "traceEvents": events,
    }, ensure_ascii=False)
    raw = text.replace("aten::tab\\tnew", "aten::tab\x1b]0;PWNED\x07\x1b[666m\tnew", 2)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(raw, encoding="utf-8")
    return path


def _slice(kind: str, name: str, start: float, span: float, pid: int = 1, tid: int = 1, **args: Any) -> dict[str, Any]:
    args = {key.replace("_", " "): value for key, value in args.items()}
    return {"ph": "X", "cat": kind, "name": name, "ts": start, "dur": span, "pid": pid, "tid": tid, "args": args}


PROFILE = (
    "cycle,pid,hostname,beta_pct,function_name,func_type,metric_name,mu_pct,sigma_pct,duration,interpolation_status,"
    "device,anchor_name,anchor_dur_us,cycle_start_ts,instances_count"
)


def write_profile(folder: Path, slow: float = 1.0) -> Path:
    """A cycle profile, for the strings a Kineto trace has not: hosts, metrics and devices of any name."""
    lines = [PROFILE]
    for cycle in range(1, 13):
        for at, attack in enumerate(ATTACKS[:9]):
            grown = slow if at < 4 else 1.0
            row = [
                cycle, 7, attack, 3.0 * grown * (1 + cycle % 3 / 100), attack, "gpu_compute",
                f"gpu_sm_frequency{attack}", 100000 / grown + cycle, 10, 30000 * grown, attack, f"GPU {attack}",
                attack, 1000 + cycle % 4, 10**15 + cycle * 1000, 4,
            ]
            lines.append(",".join('"' + str(value).replace('"', '""') + '"' for value in row))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result_perf_data.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
