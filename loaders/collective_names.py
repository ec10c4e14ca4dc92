"""Which names communicate: the one list of names, and ``[communication]`` of the settings, which comes before it.

``names`` adds kernels, ``not`` takes them out again, ``fused`` names kernels that compute and communicate at once. Each
is a list of regular expressions, searched in the full demangled name without regard to case. A fused kernel counts as
computation: what part of it communicates cannot be known. A new name needs a recording that holds it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

COLLECTIVE = re.compile(
    r"nccl|rccl|cross_device_reduce|all_?reduce|all_?gather|reduce_?scatter|multimem|symm_mem|deep_?ep|all_?to_?all"
    r"|dpsk::ep|4dpsk2ep", re.IGNORECASE
)
"""Kernels of NCCL and RCCL, the custom collectives of serving engines, the expert parallelism of DeepSeek."""
FUSED = re.compile(
    r"all_?gather_(?:matmul|gemm|scaled)|(?:matmul|gemm|mm)_(?:reduce_?scatter|all_?reduce|all_?gather|rs\b)"
    r"|flux.*(?:gemm_rs|ag_gemm)|gemm_rs|ag_gemm|fused_?moe_?comm", re.IGNORECASE
)
"""Kernels that compute and communicate at once: FLUX, symmetric-memory matrix products, TensorRT-LLM's MoE."""
KEYS = ("names", "not", "fused")


class BadPattern(ValueError):
    """``[communication]`` of the settings is invalid; the message names the place."""


class Patterns(Struct, frozen=True):
    """``[communication]`` of the settings, compiled; None for a list that is not given."""

    names: re.Pattern[str] | None = None
    never: re.Pattern[str] | None = None
    fused: re.Pattern[str] | None = None

    def __bool__(self) -> bool:
        return any((self.names, self.never, self.fused))

    def reason(self, name: str) -> str | None:
        """By what a kernel of this name communicates: ``setting``, ``name``, ``fused``, or None."""
        text = full_name(name)
        if self.never is not None and self.never.search(text):
            return None
        if self.names is not None and self.names.search(text):
            return "setting"
        if (self.fused is not None and self.fused.search(text)) or FUSED.search(text):
            return "fused"
        return "name" if COLLECTIVE.search(text) else None

    def takes_out(self, name: str) -> bool:
        """Whether the settings say that kernels of this name do not communicate, or that they compute as well."""
        return any(one is not None and one.search(full_name(name)) for one in (self.never, self.fused)) and (
            self.reason(name) != "setting")


def kernel_kind(name: str) -> str:
    """'collective' if the name is that of a collective's kernel, else 'kernel'."""
    return "collective" if Patterns().reason(name) == "name" else "kernel"


_LENGTH = re.compile(r"\d{1,4}")


def full_name(raw: str) -> str:
    """The name to search in: of a mangled one, also its identifiers joined as scopes (``dpsk::ep::…``)."""
    if not raw.startswith("_Z"):
        return raw
    parts, at = [], 2
    while (length := _LENGTH.search(raw, at)) is not None:
        end = length.end() + int(length[0])
        word = raw[length.end() : end]
        if end > len(raw) or not re.match(r"[A-Za-z_]", word):
            at = length.end()
            continue
        parts.append(word)
        at = end
    return f"{raw} {'::'.join(parts)}"


def checked(table: Any) -> Patterns:
    """The patterns of a ``[communication]`` table. Raises BadPattern."""
    if not isinstance(table, Mapping):
        raise BadPattern("communication is a table: [communication]")
    patterns: dict[str, re.Pattern[str]] = {}
    for key, given in table.items():
        if key not in KEYS:
            raise BadPattern(f"[communication] has no {key}; there are {', '.join(KEYS)}")
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise BadPattern(f"[communication] {key}: a list of regular expressions in quotes")
        for one in given:
            try:
                re.compile(one)
            except re.error:
                raise BadPattern(f'[communication] {key}: "{one}": not a regular expression') from None
        if given:
            patterns[key] = re.compile("|".join(f"(?:{one})" for one in given), re.IGNORECASE)
    return Patterns(patterns.get("names"), patterns.get("not"), patterns.get("fused"))


def settings_path() -> Path:
    """Path of the settings file."""
    from platformdirs import user_config_path

    return user_config_path("warplens") / "config.toml"


@cache
def of_settings() -> Patterns:
    """``[communication]`` of the settings; none where there is no readable file. Raises BadPattern."""
    try:
        given = tomllib.loads(settings_path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Patterns()
    return checked(given.get("communication", {}))
