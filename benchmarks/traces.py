"""Writes a synthetic Kineto trace of any size with the proportions of a training run, for the ingest benchmark.

    python benchmarks/traces.py OUT.json MEGABYTES

A step has layers, a layer has operators inside Python functions, an operator launches kernels; flows, memory instants,
copies and shapes are as frequent as in real recordings. Names resemble those of real kernels and modules, some of them
hundreds of characters long, a few with escapes and brackets. The same arguments give the same file.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

_HEAD = """{
  "schemaVersion": 1,
  "deviceProperties": [
    {
      "id": 0, "name": "Benchmark GPU", "totalGlobalMem": 85045018624, "computeMajor": 9, "computeMinor": 0,
      "numSms": 132
    }
  ],
  "cupti_version": 24, "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
  "record_shapes": 1, "profile_memory": 1, "with_stack": 1, "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1751410836000000000,
  "traceEvents": [
"""
_TAIL = """  {
    "name": "process_labels", "ph": "M", "ts": 0.000, "pid": 0, "tid": 0,
    "args": {
      "labels": "GPU 0"
    }
  }
  ],
  "traceName": "benchmark.json"
}
"""
_SLICE = (
    '  {{\n    "ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {},\n    "ts": {}, "dur": {},\n'
    '    "args": {{\n      {}\n    }}\n  }},\n'
).format
_FLOW = (
    '  {{\n    "ph": "{}", "id": {}, "pid": {}, "tid": {}, "ts": {},\n    "cat": "ac2g", "name": "ac2g"{}\n  }},\n'
).format
_MEMORY = (
    '  {{\n    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",\n    "pid": 900, "tid": 900,\n'
    '    "ts": {},\n    "args": {{\n      "Total Reserved": {}, "Total Allocated": {}, "Bytes": {}, '
    '"Device Id": 0, "Device Type": 1, "Addr": {}, "Ev Idx": {}\n    }}\n  }},\n'
).format


def _names(rng: random.Random) -> tuple[list[str], list[str], list[str]]:
    """Names of kernels, operators and Python functions, escaped for JSON strings."""
    kinds = ["float", "c10::BFloat16", "c10::Half", "long", "std::array<char*, 3ul>"]
    bodies = ["vectorized_elementwise_kernel", "unrolled_elementwise_kernel", "reduce_kernel", "softmax_warp_forward"]
    tiles = [f"{64 << n % 3}x{64 << n % 2}x64_v{n}" for n in range(40)]
    kernels = [f"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{tile}" for tile in tiles]
    kernels += [
        f"void at::native::{rng.choice(bodies)}<{n % 8}, at::native::{rng.choice(['add', 'mul', 'gelu', 'copy'])}"
        f"_functor<{', '.join(rng.choices(kinds, k=rng.randrange(1, 9)))}>>(int, {{lambda({rng.choice(kinds)})#{n}}})"
        for n in range(160)
    ]
    kernels += ["ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "triton_poi_fused_add_7"]
    operators = [f"aten::{name}" for name in "mm addmm add mul copy_ empty view transpose softmax to".split()]
    operators += ["autograd::engine::evaluate_function: MmBackward0", "## Call CompiledFxGraph [7, \\\"x\\\"] ##"]
    modules = ["torch/nn/modules/linear.py", "model/attention.py", "model/mlp.py", "torch/optim/adamw.py"]
    functions = [f"/opt/env/lib/python3.11/site-packages/{rng.choice(modules)}({n}): forward_{n}" for n in range(700)]
    return kernels, operators, [*functions, "<built-in method \\u00e9t\\u00e9 of dict>", "nn.Module: Block_{0}"]


def events(seed: int = 1) -> Iterator[str]:
    """Endless event text, a chunk of a few events at a time."""
    rng = random.Random(seed)
    kernels, operators, functions = _names(rng)
    sizes = [1, 8, 1024, 4096]
    shapes = [json.dumps([rng.choices(sizes, k=2) for _ in range(n % 5)]) for n in range(60)]
    host, device, number, launch, step = 1_000_000, 1_050_000, 0, 70_000, 0

    def us(ns: int) -> str:
        return f"{ns // 1000}.{ns % 1000:03d}"

    while True:
        step, begun = step + 1, host
        for _ in range(400):
            out = []
            number += 4
            for depth in range(3):
                out.append(_SLICE(
                    "python_function", rng.choice(functions), 900, 900, us(host + depth), us(90_000 - depth * 1000),
                    f'"Python parent id": {number + depth - 1}, "Python id": {number + depth}, "Ev Idx": {number}',
                ))  # fmt: skip
            for _ in range(rng.randrange(2, 5)):
                number, host = number + 1, host + rng.randrange(900, 4000)
                shape = rng.choice(shapes)
                out.append(_SLICE(
                    "cpu_op", rng.choice(operators), 900, 900, us(host), us(rng.randrange(1500, 60_000)),
                    f'"External id": {number},"Record function id": 0, "Concrete Inputs": ["", "1", ""], '
                    f'"Input type": ["float", "Scalar", ""], "Input Dims": {shape}, "Ev Idx": {number}',
                ))  # fmt: skip
            for _ in range(rng.randrange(1, 3)):
                launch, took, busy = launch + 1, rng.randrange(2000, 8000), int(1500 + rng.random() ** 4 * 200_000)
                host, stream = host + 1500, 7 if rng.random() < 0.9 else 20
                device = max(device, host + took) + rng.randrange(200, 900)
                ids = f'"External id": {number}, "cbid": 211, "correlation": {launch}'
                out.append(_SLICE("cuda_runtime", "cudaLaunchKernel", 900, 900, us(host), us(took), ids))
                out.append(_FLOW("s", launch, 900, 900, us(host), ""))
                out.append(_SLICE(
                    "kernel", rng.choice(kernels), 0, stream, us(device), us(busy),
                    f'"External id": {number}, "queued": 0, "device": 0, "context": 1,\n      "stream": {stream}, '
                    f'"correlation": {launch},\n      "registers per thread": {rng.randrange(16, 255)},\n'
                    f'      "shared memory": {rng.randrange(4) * 16384},\n'
                    f'      "blocks per SM": {rng.randrange(64) / 8},\n'
                    f'      "warps per SM": {rng.randrange(64)},\n      "grid": [{rng.randrange(1, 900)}, 1, 1],\n'
                    f'      "block": [{128 << rng.randrange(3)}, 1, 1],\n'
                    f'      "est. achieved occupancy %": {rng.randrange(101)}',
                ))  # fmt: skip
                out.append(_FLOW("f", launch, 0, stream, us(device), ', "bp": "e"'))
                device += busy
            if rng.random() < 0.15:
                total = rng.randrange(1 << 35)
                out.append(_MEMORY(us(host), total + (1 << 30), total, 512, 140 << 40, number))
            if rng.random() < 0.05:
                out.append(_SLICE(
                    "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 0, 7, us(device), "1.600",
                    f'"External id": {number}, "device": 0, "context": 1,\n'
                    f'      "stream": 7, "correlation": {launch},\n'
                    '      "bytes": 2048, "memory bandwidth (GB/s)": 1.2800000000000000',
                ))  # fmt: skip
            host += rng.randrange(500, 15_000)
            yield "".join(out)
        name = f"ProfilerStep#{step}"
        yield _SLICE("user_annotation", name, 900, 900, us(begun), us(host - begun), f'"Ev Idx": {number}')


def write(path: Path, megabytes: float, seed: int = 1) -> Path:
    """Write a trace of about that many megabytes (10^6 bytes)."""
    with path.open("w", encoding="utf-8", buffering=1 << 20) as file:
        file.write(_HEAD)
        left = megabytes * 1e6
        for text in events(seed):
            file.write(text)
            left -= len(text)
            if left <= 0:
                break
        file.write(_TAIL)
    return path


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), float(sys.argv[2])))
