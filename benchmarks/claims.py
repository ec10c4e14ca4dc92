"""The page docs/claims.md: what authors published about their own recordings, and what warplens says of them.

    python benchmarks/claims.py --fetch FOLDER              # get the files of claims/claims.json, check their hashes
    python benchmarks/claims.py FOLDER… > docs/claims.md    # ask warplens, write the table

A FOLDER with a ``claims.json`` of its own brings its claims too; the project's are looked for in all. A claim is
``{claim, source, verdict (agree, or against where the authors are wrong), files, origin: [{path, url, sha256}], truth
(how the figure was had by another road), ask: [{runs: [index into files], view, extra, holds, says}]}``;
``archive!part`` is a file within a tar archive. ``holds`` are Python expressions over the JSON of an answer (``t``, its
facts ``f``, its rows ``r``, its sentences ``text``); ``says`` is one that gives the words for the table. They are run:
only give folders you trust. A claim whose files are absent, or are no longer those that were published, is
skipped and counted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

OWN = Path(__file__).parent / "claims" / "claims.json"
TRACES = "traces"
_UNPUBLISHED = re.compile(r"\s*\(prototypes/[^)]*\)|prototypes/\S+:\s*")
"""Programs by which a figure was had that no reader can find."""


class Outcome(NamedTuple):
    """A claim and what came of it: how many expectations hold, what warplens says, or why it was skipped."""

    claim: dict[str, Any]
    held: int = 0
    of: int = 0
    says: str = ""
    command: str = ""
    skipped: str = ""


def fetch(folder: Path) -> None:
    """Get every file of the project's claims into the folder. Raises SystemExit where one is another file now."""
    origins = {one["path"]: one for claim in json.loads(OWN.read_text(encoding="utf-8")) for one in claim["origin"]}
    for one in origins.values():
        target = folder / one["path"]
        if target.exists() and digest(target) == one["sha256"]:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(one["url"]) as response:
            data = response.read()
        if hashlib.sha256(data).hexdigest() != one["sha256"]:
            raise SystemExit(f"{one['url']} is no longer the file the claim is about")
        target.write_bytes(data)
        print(f"{one['path']}: {len(data):,} bytes", file=sys.stderr)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def place(name: str, folders: list[Path], unpacked: Path) -> Path | None:
    """The file of a claim in one of the folders, unpacked where it lies in an archive; None if it is not there."""
    outer, _, inner = name.partition("!")
    for path in (folder / sub / outer for folder in folders for sub in ("", TRACES)):
        if path.exists() and not inner:
            return path
        if path.exists():
            target = unpacked / path.name.partition(".")[0]
            with tarfile.open(path) as archive:
                members = [one for one in archive if one.isfile() and inner in one.name]
                archive.extractall(target, members=members, filter="data")
            return next((one for one in sorted(target.rglob("*")) if inner in str(one) and one.is_file()), None)
    return None


def outcome(claim: dict[str, Any], folders: list[Path], unpacked: Path) -> Outcome:
    """Ask warplens what the claim asks."""
    files = [place(name, folders, unpacked) for name in claim["files"]]
    if None in files:
        return Outcome(claim, skipped="its files are not here")
    for one in claim.get("origin", ()):
        path = place(one["path"], folders, unpacked)
        if path is not None and digest(path) != one["sha256"]:
            return Outcome(claim, skipped=f"{one['path']} is another file than was published")
    held = of = 0
    says, command = [], ""
    for question in claim["ask"]:
        runs = [str(files[index]) for index in question["runs"]]
        words = [question.get("command", "report"), *runs]
        words += ["--view", question["view"]] if question.get("view") else []
        done = subprocess.run(
            [sys.executable, "-m", "warplens", *words, "--format", "json", *question.get("extra", ())],
            capture_output=True, text=True)
        names = known(done.stdout)
        command = command or " ".join(
            ["warplens", words[0], *(claim["files"][index].rpartition("!")[2].rpartition("/")[2]
                                     for index in question["runs"]), *words[1 + len(runs):]])
        for expression in question["holds"]:
            of += 1
            held += holds(expression, names)
        if "says" in question:
            says.append(str(value(question["says"], names)))
    return Outcome(claim, held, of, "; ".join(says), command)


def known(out: str) -> dict[str, Any]:
    """What an expression may use: the answer and its parts."""
    try:
        table = json.loads(out)
    except ValueError:
        table = {}
    facts = table.get("facts") or {}
    sentences = [*facts.get("findings", ()), *(table.get("summary") or ()), *(table.get("notes") or ())]
    return {"t": table, "f": facts, "r": table.get("rows") or [], "text": " ".join(map(str, sentences)), "out": out,
            "re": re, "json": json}


def value(expression: str, names: dict[str, Any]) -> Any:
    """The value of an expression of a claim; its error as text."""
    try:
        return eval(expression, dict(names))  # the claims say so above
    except Exception as error:
        return f"({type(error).__name__}: {error})"


def holds(expression: str, names: dict[str, Any]) -> bool:
    """Whether an expectation of a claim is met; with an error it is not."""
    result = value(expression, names)
    return bool(result) and not isinstance(result, str)


def page(outcomes: list[Outcome]) -> str:
    """docs/claims.md."""
    asked = [one for one in outcomes if not one.skipped]
    whole = [one for one in asked if one.held == one.of]
    pairs = sum(len(one.claim["ask"][0]["runs"]) > 1 for one in asked)
    lines = [
        "# They say, we say", "",
        f"Of {len(asked)} published results ({pairs} about two runs) {len(whole)} are what warplens says. Authors "
        "published both the recording and a figure; the figure was computed again from the raw file by another road "
        "(*how it is known*). Where the authors are wrong the table says *against*.", "",
        "The page is written by `python benchmarks/claims.py FOLDER…`; `--fetch FOLDER` gets the files of the claims "
        "in `benchmarks/claims/claims.json` and checks their hashes.", "",
        "| they say | we say | how it is known | source | command |", "|---|---|---|---|---|",
    ]
    for one in asked:
        verdict = "against: " if one.claim["verdict"] == "against" else ""
        if one.held < one.of:
            says = f"**{one.held} of {one.of} expectations hold.** {one.says}".strip()
        else:
            says = one.says or f"the same ({one.of} of {one.of} expectations hold)"
        truth = _UNPUBLISHED.sub("", one.claim["truth"])
        cells = (one.claim["claim"], verdict + says, truth, one.claim["source"], f"`{one.command}`")
        lines.append(f"| {' | '.join(cell.replace('|', '∣') for cell in cells)} |")
    for one in outcomes:
        if one.skipped:
            lines += ["", f"Skipped: {one.claim['claim']} ({one.skipped})."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Fetch the files, or print the page; exit status 1 where an expectation is not met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fetch", type=Path, metavar="FOLDER")
    parser.add_argument("folders", nargs="*", type=Path)
    arguments = parser.parse_args()
    if arguments.fetch:
        fetch(arguments.fetch)
        return
    every = {claim["claim"]: claim for path in (*(folder / "claims.json" for folder in arguments.folders), OWN)
             if path.exists() for claim in json.loads(path.read_text(encoding="utf-8"))}
    with tempfile.TemporaryDirectory() as unpacked:
        outcomes = [outcome(claim, arguments.folders, Path(unpacked)) for claim in every.values()]
    print(page(outcomes), end="")
    sys.exit(any(one.held < one.of for one in outcomes))


if __name__ == "__main__":
    main()
