"""The scopes of a compiled program (XLA) in the tree of its ops: module → scope → op → kernel.

An op's scopes are those of the program's source (``jit(step)/layer_0/attention/dot_general``), from the HLO that the
profile carries; the first names the module, the last the primitive, and both are left out. A scope has the sums of what
is below it, and as many calls as the op of it that ran most often.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from ...loaders.trace import Trace
from ..table.tree import DEEPEST, PATH
from .call_paths import FRAME, MODULE_KIND, OPERATOR_KIND

_SUMS = ("device_total_ns", "idle_total_ns", "host_total_ns")


def scopes_in(scope: str) -> list[str]:
    """The scopes of an op between its module and its primitive, outermost first; a "/" inside brackets is no border."""
    parts, depth = [""], 0
    for letter in scope:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "/" and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    parts = parts[1:] if parts[0].startswith(("jit(", "pjit(", "pmap(")) else parts
    return [part for part in parts[:-1] if part]


def with_scopes(run: Trace, tree: pl.DataFrame) -> pl.DataFrame:
    """The tree (``FRAME``) with the scopes of its ops between them and their module."""
    texts = pl.col("op_module", "op_name", "op_scope").cast(pl.String)
    named = run.kernels.select(texts).drop_nulls(["op_name", "op_scope"]).unique().collect(engine="streaming")
    scopes = {(module or "", op): scopes_in(scope) for module, op, scope in named.sort("op_scope").rows()}
    rows = {row["path"]: row for row in tree.to_dicts()}
    moved: dict[str, tuple[str, int]] = {}  # path of an op -> path of the scope that it goes under, scopes before it
    above: dict[str, dict[str, Any]] = {}
    for path, row in rows.items():
        module = row["parent"] or ""
        names = scopes.get((module.rsplit(PATH, 1)[-1].partition(":")[0], row["name"])) or scopes.get(("", row["name"]))
        if row["kind"] != OPERATOR_KIND or not names or row["depth"] + len(names) >= DEEPEST:
            continue
        parent, depth = row["parent"], row["depth"]
        for name in names:
            own = name if parent is None else f"{parent}{PATH}{name}"
            scope = above.setdefault(own, {
                **dict.fromkeys(FRAME), "path": own, "name": name, "kind": MODULE_KIND, "depth": depth,
                "parent": parent, "count": 0, "device_self_ns": 0, "host_self_ns": 0})
            scope["count"] = max(scope["count"], row["count"] or 0)
            for column in _SUMS:
                if row[column] is not None:
                    scope[column] = (scope[column] or 0) + row[column]
            parent, depth = own, depth + 1
        moved[path] = (parent, len(names))
    result = []
    for path, row in rows.items():
        at = path
        while at and at not in moved:
            at = at.rpartition(PATH)[0]
        if at:
            under, more = moved[at]
            start = len(at) - len(rows[at]["name"])
            row = {**row, "path": f"{under}{PATH}{path[start:]}", "depth": row["depth"] + more,
                   "parent": under if at == path else f"{under}{PATH}{row['parent'][start:]}"}
        result.append(row)
    return pl.DataFrame([*result, *above.values()], schema=FRAME)
