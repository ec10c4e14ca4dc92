"""The share of kernel time on tensor cores, as far as kernel names tell."""

from __future__ import annotations

from msgspec import Struct

from ..rule import Evidence, Rule
from ..spread import Spread, spread


class OnTensorCores(Struct, frozen=True):
    """The share of each device; ``least``: it is a lower bound, since the names of other kernels leave it open."""

    shares: Spread
    least: bool


def _find(evidence: Evidence) -> OnTensorCores | None:
    tensor_shares = spread(evidence.devices, "tensor_share")
    least = tensor_shares is None or len(tensor_shares.shares) < len(evidence.devices)
    shares = spread(evidence.devices, "tensor_least") if least else tensor_shares
    return OnTensorCores(shares, least) if shares is not None and shares.highest[1] else None


def _sentence(on: OnTensorCores) -> str:
    shares = on.shares
    if on.least:
        return f"At least {shares.text} of the kernel time on {shares.who} is on tensor cores, by kernel names."
    return f"{shares.text} of the kernel time on {shares.who} is on tensor cores, by kernel names."


RULE = Rule(
    "tensor cores", "fact", _find, _sentence,
    rows=lambda on: tuple({"device": name, "tensor_share": each} for name, each in on.shares.shares), view="kernels",
)
