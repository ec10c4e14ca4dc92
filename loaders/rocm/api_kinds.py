"""What kind of host slice a call is, by the domain it is filed under (HIP_RUNTIME_API, MARKER_CORE_API, …)."""

from __future__ import annotations

import re

_DRIVER = re.compile(r"HSA|DRIVER|KFD|SCRATCH|MEMORY_ALLOCATION", re.IGNORECASE)
_RUNTIME = re.compile(r"HIP|RCCL|NCCL|ROCDECODE|ROCJPEG|RUNTIME|OMPT|ROCBLAS|MIOPEN", re.IGNORECASE)
_MARK = re.compile(r"MARKER|ROCTX|NVTX", re.IGNORECASE)
API_NAME = re.compile(r"_*(?:hip|hsa|roc|rocDec|rocJpeg|roctx|[nr]ccl(?!Dev|Kernel))(?:_[a-z]|[A-Z])\w*\Z")
"""Names of API calls, for reports that name no domain. ``ncclDevKernel…`` is a kernel."""


def kind_of_domain(domain: str) -> str:
    """'annotation' for marks, 'driver' for HSA and below, 'runtime' for HIP and libraries; annotation for others."""
    if _MARK.search(domain):
        return "annotation"
    if _DRIVER.search(domain):
        return "driver"
    return "runtime" if _RUNTIME.search(domain) else "annotation"
