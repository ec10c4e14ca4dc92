"""Makes ``analysis/work/peaks.toml`` from a table of data sheets: ``python benchmarks/make_peaks.py peaks.tsv``.

The table is tab separated with one row per device: dense FLOP/s and B/s per device as a program sees it. Only the names
in its column ``recognised`` are used; further recognition rules (a chip without a name, two cards of the same name) are
in ``analysis/work/peaks.py``.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path

TYPES = "fp64 fp64_tensor fp32 fp32_matrix tf32 fp16 bf16 fp8 int8 fp4".split()
HEAD = "# Peaks of devices, dense, per device as a program sees it; made by benchmarks/make_peaks.py.\n"


def main(table: str) -> None:
    """Write the TOML file."""
    out = [HEAD]
    for row in csv.DictReader(Path(table).read_text(encoding="utf-8").splitlines(), delimiter="\t"):
        names = [re.sub(r" \((?!R).*", "", name).strip() for name in row["recognised"].split(";")]
        names = [name for name in names if re.search(r"\d", name) and not name.startswith(("no name", "64 ", "448"))]
        reported = re.search(r"reported as (\d+)", row["recognised"])
        units = reported[1] if reported else row["units"]
        size = {"units": units, "memory": row["memory_bytes"], "boost_mhz": row["boost_mhz"],
                "bytes_per_s": row["memory_bytes_per_s"]}
        lines = [
            f"model = {json.dumps(row['model'])}", f"names = {json.dumps(list(dict.fromkeys(names)))}",
            _table("size", size), _table("flops", {key: row[key] for key in TYPES}),
            f"source = {json.dumps(row['source'])}", f"doubt = {json.dumps(row['doubt'])}",
            f"claimed = {json.dumps(row['checked'] == 'neither')}",
        ]
        out.append("\n[[device]]\n" + "\n".join(lines) + "\n")
    target = Path(__file__).parents[1] / "analysis/work/peaks.toml"
    target.write_text("".join(out), encoding="utf-8")


def _table(name: str, values: dict[str, str]) -> str:
    """A TOML inline table of the non-empty values."""
    known = ", ".join(f"{key} = {float(value):.6g}".replace("e+", "e") for key, value in values.items() if value)
    return f"{name} = {{{known}}}"


if __name__ == "__main__":
    main(sys.argv[1])
