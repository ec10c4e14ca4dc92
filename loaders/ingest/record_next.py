"""Suggests profiler options for the next recording, to record what views lack in this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..trace import Trace

_CUDA_SYNC = "experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)"
_AIC_METRICS = (
    "experimental_config=torch_npu.profiler._ExperimentalConfig("
    "profiler_level=torch_npu.profiler.ProfilerLevel.Level1, "
    "aic_metrics=torch_npu.profiler.AiCMetrics.PipeUtilization)")
_COUNTERS = "nvidia-smi --query-gpu=timestamp,index,clocks.sm,power.draw --format=csv -lms 100 > gpu.csv"


class Missing(NamedTuple):
    """A test for missing data, the profiler option that records it, and what the data shows."""

    is_missing: Callable[[Trace], bool]
    option: str
    shows: str


def _without(name: str) -> Callable[[Trace], bool]:
    return lambda trace: not trace.has(name)


def _no_kind(table: str, kind: str) -> Callable[[Trace], bool]:
    def is_missing(trace: Trace) -> bool:
        return not trace.has(f"{table}.kind={kind}")

    return is_missing


_NO_STEPS = _without("cycles")
_OPTIONS: dict[str, tuple[Missing, ...]] = {
    "kineto": (
        Missing(_without("host"), "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]", "who launched what"),
        Missing(_NO_STEPS, "schedule=torch.profiler.schedule(wait=5, warmup=2, active=10), and prof.step() in the loop",
                "steps as cycles"),
        Missing(_without("host.shapes"), "record_shapes=True", "FLOPs, roofline, what-if at peak"),
        Missing(_no_kind("host", "python"), "with_stack=True", "Python lines behind gaps and launches"),
        Missing(_no_kind("kernels", "sync"), _CUDA_SYNC, "which stream waits for which"),
        Missing(_without("allocations"), "profile_memory=True", "memory peaks and what held them"),
        Missing(_without("metrics"), f"{_COUNTERS}, in the folder of the trace", "clocks and power while kernels run"),
    ),
    "ascend": (
        Missing(_NO_STEPS, "schedule=torch_npu.profiler.schedule(wait=5, warmup=2, active=10), and prof.step() in the "
                "loop", "steps as cycles"),
        Missing(_no_kind("host", "python"), "with_stack=True", "Python lines behind gaps and launches"),
        Missing(_without("allocations"), "profile_memory=True", "memory peaks and what held them"),
        Missing(_without("kernels.tensor"), f"{_AIC_METRICS}, and open the folder *_ascend_pt", "AI Core use"),
    ),
    "nsys": (
        Missing(_no_kind("host", "annotation"), "--trace=cuda,nvtx,osrt, and torch.cuda.nvtx.range_push(…) per step",
                "steps as cycles, ranges"),
        Missing(_no_kind("host", "op"), "--pytorch=autograd-shapes-nvtx",
                "operators and their shapes, of a PyTorch program"),
        Missing(_no_kind("host", "python"), "--python-backtrace=cuda", "Python lines behind launches"),
        Missing(_without("metrics"), "--gpu-metrics-devices=all", "SM, tensor core and DRAM use over time"),
    ),
    "rocprof": (
        Missing(_without("host"), "--hip-trace (or --sys-trace)", "who launched what, and why devices wait"),
        Missing(_no_kind("host", "annotation"), "--marker-trace, and roctxRangePush per step", "steps as cycles"),
    ),
    "xla": (Missing(_NO_STEPS, "jax.profiler.StepTraceAnnotation(\"step\", step_num=n) around each step",
                    "steps as cycles"),),
    "ncu": (Missing(_without("kernels.tensor"), "--set full --csv --page raw", "tensor core and DRAM use"),),
}
"""Prefix of the format name → options."""
_BY_TOOL = {"Ascend": "ascend", "JAX": "xla", "VizTracer": "-", "Chrome trace": "-"}
"""Prefix of the tool name → key of ``_OPTIONS``, for others that write Kineto's format; "-": nothing to suggest."""


def record_next(trace: Trace) -> Iterator[str]:
    """One line per useful option, as ``record_shapes=True: FLOPs, roofline``; none if nothing is missing."""
    tool = trace.info.tool or ""
    writer = next((name for begin, name in _BY_TOOL.items() if tool.startswith(begin)), trace.info.format)
    wanted = next((options for name, options in _OPTIONS.items() if writer.startswith(name)), ())
    for one in wanted:
        if one.is_missing(trace):
            yield f"{one.option}: {one.shows}"
