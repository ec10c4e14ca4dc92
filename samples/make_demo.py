"""Writes the demo pair: two synthetic Kineto traces of a serving process, on a healthy and on a throttled GPU.

Nothing here was recorded. The scenario is that of a known comparison: a decode step of a language model takes 750 ms,
host-bound; in the second run the clock of GPU 7 falls from 1,187 to 210 MHz and every kernel takes three to four times
as long, which hardly shows in the cycle time, because the GPU still waits for the host. Two cycles of that run are slow
for another reason: the host is busy after the forward pass. The cycle times are exactly those of that comparison;
kernels, launches, operators and counters come from a seeded generator, so that the files are the same every time.

    python samples/make_demo.py [folder]
"""

from __future__ import annotations

import gzip
import io
import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROCESS, DEVICE, STREAM = 944615, 7, 7
LAYERS = 64
BASE_CLOCK = 1155.0

NORMAL_US = (
    737434.75, 753556.25, 756963.5, 746994.75, 749817.5, 737700.25, 751081.75, 757989.25, 738241.0, 743083.5,
    771618.75, 756170.25,
)
ABNORMAL_US = (
    743431.0, 760486.0, 762219.0, 748784.5, 740021.75, 736942.75, 740053.75, 753976.25, 863021.75, 1001081.25,
)


@dataclass(frozen=True)
class Kernel:
    """A generated kernel: name, launching operator, launch shape, and how its time scales with the SM clock.

    The duration is ``micros`` · (``BASE_CLOCK`` / clock) ** ``follows``.
    """

    name: str
    op: str
    micros: float
    follows: float
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    shared: int = 0
    category: str = "kernel"
    bytes: int = 0


_GEMM = "ampere_bf16_s16816gemm_bf16_64x64_{}ldg8_f2f_stages_64x{}_tn"
_NORM = (
    "void flashinfer::norm::{}<8u, __nv_bfloat16>(__nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, unsigned int, "
    "unsigned int, unsigned int, float, float)"
)
GATE_UP = Kernel(_GEMM.format("sliced1x2_", 5), "aten::mm", 312.4, 0.723, (16, 432, 1), (128, 1, 1), 166, 81920)
PROJECTION = Kernel(_GEMM.format("sliced1x2_", 6), "aten::mm", 109.7, 0.776, (16, 80, 1), (128, 1, 1), 158, 98304)
DOWN = Kernel(_GEMM.format("", 5), "aten::mm", 67.3, 0.793, (4, 80, 3), (128, 1, 1), 122, 81920)
ADD_NORM = Kernel(
    _NORM.format("FusedAddRMSNormKernel"), "sgl_kernel::fused_add_rmsnorm", 7.2, 0.72, (32, 1, 1), (32, 20, 1), 40,
    10320,
)
NORM = Kernel(_NORM.format("RMSNormKernel"), "sgl_kernel::rmsnorm", 5.9, 0.65, (32, 1, 1), (32, 20, 1), 32, 80)
ROPE = Kernel(
    "void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheKernel<false, 128u, 8u, 16u, __nv_bfloat16, int>"
    "(__nv_bfloat16*, __nv_bfloat16*, float*, int*)",
    "sgl_kernel::apply_rope_pos_ids_cos_sin_cache", 5.3, 0.61, (8, 1, 1), (16, 8, 1), 38,
)
STORE = Kernel(
    "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::index_put_kernel_impl"
    "<at::native::OpaqueType<2> > > >(long, at::native::gpu_index_kernel)",
    "aten::index_put_", 8.6, 0.73, (64, 1, 1), (128, 1, 1), 32,
)
ATTENTION = Kernel(
    "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u, 4u, 8u, 16u, 1u, 8u, "
    "flashinfer::DefaultAttention<false, false, false, false> >(flashinfer::BatchDecodeParams)",
    "flashinfer::batch_decode", 20.7, 0.8, (432, 8, 1), (16, 1, 8), 96, 33792,
)
REDUCE = Kernel(
    "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 2>(sglang::RankData*, sglang::RankSignals, "
    "sglang::Signal*, __nv_bfloat16*, int, int)",
    "sgl_kernel::all_reduce", 14.0, 0.35, (36, 1, 1), (512, 1, 1), 40,
)
ACTIVATION = Kernel(
    "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &(float silu<float>(float const&))>"
    "(__nv_bfloat16*, __nv_bfloat16 const*, int)",
    "sgl_kernel::silu_and_mul", 13.5, 0.84, (32, 1, 1), (1024, 1, 1), 28,
)
EMBEDDING = Kernel(
    "void at::native::(anonymous namespace)::indexSelectSmallIndex<c10::BFloat16, long, unsigned int, 2, 2, -2>"
    "(at::cuda::detail::TensorInfo<c10::BFloat16, unsigned int>, long)",
    "aten::index_select", 6.8, 0.62, (640, 1, 1), (128, 1, 1), 28,
)
SOFTMAX = Kernel(
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, "
    "at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(float*, float const*, int)",
    "aten::_softmax", 114.0, 0.95, (32, 1, 1), (1024, 1, 1), 32, 128,
)
SAMPLING = Kernel(
    "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u, (cub::BlockScanAlgorithm)2, "
    "(cub::BlockReduceAlgorithm)2, 4u, true, float, int>(float*, int*, float*, int*, float*, int, float)",
    "sgl_kernel::top_k_top_p_sampling_from_probs", 131.0, 0.95, (32, 1, 1), (1024, 1, 1), 48, 19936,
)
TO_DEVICE = Kernel(
    "Memcpy HtoD (Pinned -> Device)", "aten::copy_", 2.2, 0.2, (0, 0, 0), (0, 0, 0), 0, 0, "gpu_memcpy", 4096
)
TO_HOST = Kernel(
    "Memcpy DtoH (Device -> Pageable)", "aten::item", 4.7, 0.2, (0, 0, 0), (0, 0, 0), 0, 0, "gpu_memcpy", 128
)
LAYER = (
    ADD_NORM, PROJECTION, ROPE, STORE, ATTENTION, PROJECTION, REDUCE, ADD_NORM, GATE_UP, ACTIVATION, DOWN, REDUCE,
)
FORWARD = (TO_DEVICE, EMBEDDING, *(kernel for _ in range(LAYERS) for kernel in LAYER), NORM, GATE_UP)


@dataclass(frozen=True)
class Story:
    """The script of one run: cycle times, GPU clock per cycle, lost GPU records, and host load.

    ``kept`` maps a cycle to the share of its device records (the last ones) that are in the file. ``counters_from`` is
    the cycle in which counter sampling starts.
    """

    seed: int
    cycles_us: tuple[float, ...]
    clocks: dict[int, float]
    kept: dict[int, float]
    counters_from: int
    clock: float = BASE_CLOCK
    usage: tuple[int, ...] = (5, 8, 6, 4, 9, 6)
    cpu: tuple[float, float, float] = (3500.0, 7.9, 112.0)


NORMAL = Story(41, NORMAL_US, {9: 1410.0}, {1: 0.0, 2: 0.55}, counters_from=5)
ABNORMAL = Story(
    42, ABNORMAL_US, {}, {1: 0.0, 2: 0.96, 4: 0.92, 5: 0.81}, counters_from=1, clock=210.0,
    usage=(22, 21, 22, 23, 20, 22), cpu=(3500.0, 5.9, 174.0),
)


@dataclass
class Recorder:
    """Collects events; times in µs, in multiples of 0.25 µs on the host and 32 ns on the device."""

    random: random.Random
    events: list[dict[str, Any]] = field(default_factory=list)
    correlation: int = 0
    device_free: float = 0.0

    def quarters(self, below: int) -> float:
        """A random time from 0 to below ``below`` µs, in multiples of 0.25 µs."""
        return self.random.randrange(4 * below) / 4

    def host(self, category: str, name: str, start: float, dur: float, **args: Any) -> None:
        """Add a slice on the main thread."""
        event = {"ph": "X", "cat": category, "name": name, "pid": PROCESS, "tid": PROCESS, "ts": _us(start),
                 "dur": _us(dur)}
        self.events.append({**event, "args": args} if args else event)

    def launch(self, kernel: Kernel, start: float, clock: float, recorded: bool) -> None:
        """Add an operator, its runtime call and, if ``recorded``, the device activity it launches."""
        self.correlation += 1
        ids = {"External id": self.correlation, "correlation": self.correlation}
        call = 4.5 + self.quarters(3)
        copy = kernel.category == "gpu_memcpy"
        before = 6 + self.quarters(5)
        self.host("cpu_op", kernel.op, start, before + call + 3, **{"External id": self.correlation})
        self.host("cuda_runtime", "cudaMemcpyAsync" if copy else "cudaLaunchKernel", start + before, call, **ids)
        dur = kernel.micros * (BASE_CLOCK / clock) ** kernel.follows * self.random.uniform(0.985, 1.015)
        dur = max(1, round(dur / 0.032)) * 0.032
        begin = max(start + before + call + 2, self.device_free + 1.024)
        self.device_free = begin + dur
        if not recorded:
            return
        args: dict[str, Any] = {"device": DEVICE, "stream": STREAM, **ids}
        if copy:
            args["bytes"] = kernel.bytes
        else:
            args |= {
                "grid": list(kernel.grid), "block": list(kernel.block), "registers per thread": kernel.registers,
                "shared memory": kernel.shared, "est. achieved occupancy %": _occupancy(kernel),
                "blocks per SM": round(kernel.grid[0] * kernel.grid[1] * kernel.grid[2] / 108, 4),
            }
        self.events.append({
            "ph": "X", "cat": kernel.category, "name": kernel.name, "pid": DEVICE, "tid": STREAM,
            "ts": _us(begin), "dur": _us(dur), "args": args,
        })

    def sample(self, metric: str, at: float, value: float, unit: str, device: int | str = DEVICE) -> None:
        """Add one counter sample."""
        self.events.append({
            "ph": "C", "name": metric, "pid": device if device != "Host" else PROCESS, "ts": _us(at),
            "args": {metric: round(value, 3), "unit": unit, "device": device},
        })


def _us(value: float) -> float:
    rounded = round(value, 3)
    return int(rounded) if rounded == int(rounded) else rounded


def _occupancy(kernel: Kernel) -> int:
    """Estimated occupancy in percent: resident warps per SM of 64, limited by resources and by the grid size."""
    warps = max(1, kernel.block[0] * kernel.block[1] * kernel.block[2] // 32)
    fit = min(65536 // max(1, kernel.registers * warps * 32), 166912 // max(1, kernel.shared), 64 // warps)
    waves = kernel.grid[0] * kernel.grid[1] * kernel.grid[2] / 108
    return round(100 * min(1.0, max(1, min(fit, max(1.0, waves))) * warps / 64))


def run_cycle(out: Recorder, story: Story, number: int, start: float, dur: float) -> None:
    """Add one scheduler step: the host prepares, launches the forward pass kernel by kernel, samples and replies."""
    clock = story.clocks.get(number, story.clock)
    out.host("user_annotation", "Scheduler.run_batch", start, dur)
    out.host("python_function", "scheduler.py(1406): get_next_batch_to_run", start + 8, 5200 + out.quarters(900))
    out.host("python_function", "model_runner.py(1177): forward", start + 6300, 563000 + out.quarters(3000))
    kept = story.kept.get(number, 1.0)
    total = len(FORWARD) + 3
    first_kept = total - round(total * kept)
    at = start + 9300.0
    pace = 555000.0 / len(FORWARD)
    for place, kernel in enumerate(FORWARD):
        out.launch(kernel, at + out.quarters(100), clock, place >= first_kept)
        at += pace
    at = start + 574000
    out.host("python_function", "sampler.py(35): forward", at, 8800 + out.quarters(400))
    for place, kernel in enumerate((SOFTMAX, SAMPLING, TO_HOST), len(FORWARD)):
        out.launch(kernel, at + 800 + 2500 * (place - len(FORWARD)), clock, place >= first_kept)
    out.host("cuda_runtime", "cudaStreamSynchronize", at + 6200, 8.25 + out.quarters(2))
    rest = start + dur - (at + 9400)
    out.host("python_function", "scheduler.py(1560): process_batch_result", at + 9300, rest)
    out.host("python_function", "scheduler.py(1702): stream_output", at + 12000, rest - 9000)


def sample_counters(out: Recorder, story: Story, bounds: list[tuple[float, float]]) -> None:
    """Add GPU and host counters from cycle ``counters_from`` on; clocks change between cycles."""
    begin = bounds[story.counters_from - 1][0] + (110_000 if story.counters_from > 1 else 0)
    end = bounds[-1][1]
    at, place = begin, 0
    while at < end:
        cycle = 1 + sum(start + 660_000 < at for start, _ in bounds)
        clock = story.clocks.get(cycle, story.clock)
        for metric in ("gpu_sm_frequency", "gpu_frequency"):
            out.sample(metric, at, clock, "MHz")
        if place % 5 == 0:
            out.sample("process_gpu_usage", at, story.usage[cycle % len(story.usage)], "%")
            out.sample("gpu_mem_frequency", at, 1593, "MHz")
            out.sample("gpu_mem_used", at, 73_620_000_000, "B")
            out.sample("gpu_sm_frequency", at, 210, "MHz", device=6)
        if place % 4 == 0:
            frequency, whole, mine = story.cpu
            out.sample("cpu_frequency", at, frequency + out.random.uniform(-8, 8), "MHz", device="Host")
            out.sample("host_cpu_usage", at, whole + out.random.uniform(-1, 1), "%", device="Host")
            out.sample("process_cpu_usage", at, mine + out.random.uniform(-4, 4), "%", device="Host")
        at += 50_000
        place += 1


def trace(story: Story) -> dict[str, Any]:
    """The whole trace as a JSON document."""
    out = Recorder(random.Random(story.seed))
    out.events += [
        {"ph": "M", "name": name, "pid": pid, "tid": 0, "ts": 0, "args": args}
        for pid, named, label in ((PROCESS, "sglang::scheduler_TP1", "CPU"), (DEVICE, "python", f"GPU {DEVICE}"))
        for name, args in (("process_name", {"name": named}), ("process_labels", {"labels": label}))
    ]
    at, bounds = 400.0, []
    for number, dur in enumerate(story.cycles_us, 1):
        bounds.append((at, at + dur))
        run_cycle(out, story, number, at, dur)
        at += dur + 32 + out.quarters(10)
    sample_counters(out, story, bounds)
    return {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 1762935807000000000,
        "generated": "by samples/make_demo.py of warplens; this was not recorded",
        "deviceProperties": [{
            "id": DEVICE, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_098_233_856, "computeMajor": 8,
            "computeMinor": 0, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536,
            "warpSize": 32, "sharedMemPerBlock": 49152, "numSms": 108,
        }],
        "traceEvents": sorted(out.events, key=lambda event: event["ts"]),
    }


def write(folder: Path) -> None:
    """Write both runs as ``normal.json.gz`` and ``abnormal.json.gz``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, story in (("normal", NORMAL), ("abnormal", ABNORMAL)):
        text = json.dumps(trace(story), separators=(",", ":")).replace('},{"ph"', '},\n{"ph"')
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9, mtime=0, filename="") as stream:
            stream.write(text.encode())
        (folder / f"{name}.json.gz").write_bytes(packed.getvalue())


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "demo")
