"""What the tensor cores of a device multiply, by its compute capability, its product name or the kernels it ran.

Advice to use a number type may only name one that the device has. Nothing may be recommended for a device of which
neither capability, nor product, nor a kernel built for its architecture is recorded, nor for one of another maker than
NVIDIA, whose matrix units multiply FP32 too. Source: CUDA C++ Programming Guide, "Compute Capabilities".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ...loaders.trace import Device
from .tensor_cores import LONGEST

TYPES = ((8, ("TF32", "BF16", "FP16")), (7, ("FP16",)), (0, ()))
"""From which major compute capability on: the types an FP32 product could use instead."""
_PRODUCTS = tuple((major, re.compile(rf"\b({names})\b")) for major, names in (
    (0, r"GTX|MX\d+|T\d{3,4}|[KMP]\d{1,4}|TITAN Xp?"),  # Turing's smallest chips (GTX 16, T1000) have no tensor cores
    (7, r"G?V100\w*|TITAN V|T4\w?|RTX 20\d\d|TITAN RTX|Quadro RTX \d+"),
    (8, r"[ABH]\d{1,3}\w?|G[BH]\d{3}|L4|L40S?|RTX [3-9]0\d\d|RTX A\d+|RTX PRO \d+|RTX \d+ Ada"),
))
_KERNELS = (
    (8, re.compile(r"(^|_)(ampere|hopper|blackwell|sm[89]\d|sm1[0-2]\d)_|cutlass_[89]0_", re.IGNORECASE)),
    (7, re.compile(r"(^|_)(volta|turing|sm7\d)_", re.IGNORECASE)),
)
"""Kernels that run from this capability on: cuBLAS runs ``volta_`` ones on later devices as well."""
_OTHER_MAKERS = re.compile(r"\b(AMD|Instinct|Radeon|MI\d+|gfx\w+|Ascend|Intel|MLU)")
_MAJOR = ("computeMajor", "major", "compute_cap_major", "compute_capability")
_AMD_WAVE = 64


def tensor_core_types(devices: Sequence[Device], kernels: Iterable[str]) -> tuple[str, ...] | None:
    """The types that tensor cores of all these devices multiply; () where one has none, None where that is unknown.

    ``kernels`` are the names of what ran on them: they say the least that devices not described can do.
    """
    least = max((major for name in kernels for major, built in _KERNELS if built.search(name[:LONGEST])), default=None)
    majors = [_major(one, least) for one in devices] or [least]
    if None in majors:
        return None
    lowest = min(major for major in majors if major is not None)
    return next(types for major, types in TYPES if lowest >= major)


def is_other_maker(device: Device) -> bool:
    """Whether the recording says that the device is not NVIDIA's."""
    chips = " ".join(str(device.properties.get(key, "")) for key in ("chip", "gpu_arch", "device_vendor"))
    return (
        device.id.startswith(("NPU", "MLU", "TPU")) or device.properties.get("warpSize") == _AMD_WAVE
        or bool(_OTHER_MAKERS.search(f"{device.name or ''} {chips}"))
    )


def _major(device: Device, least: int | None) -> int | None:
    """The major compute capability, 0 without tensor cores; ``least`` where the device is not described."""
    if is_other_maker(device):
        return None
    product = next((major for major, named in _PRODUCTS if named.search(device.name or "")), None)
    recorded = [str(device.properties[key]).split(".")[0] for key in _MAJOR if key in device.properties]
    known = next((int(text) for text in recorded if text.isdigit()), None)
    if product == 0 or known is None:
        return least if product is None else product
    return known
