"""Writes a synthetic job: one Kineto trace per rank of a training run with a straggler.

    python samples/make_job.py FOLDER [--ranks 8] [--steps 4] [--layers 4] [--operators 3] [--late 5] [--slower 1.2]
                               [--tensor-parallel 8] [--plain] [--old-names] [--seed 1]

Nothing here was recorded. Ranks form tensor-parallel groups of ``--tensor-parallel``: every layer ends with an
all-reduce in the group, every step with an all-reduce of all gradients among the ranks at the same position of all
groups (data parallel; none with a single group). In a collective all ranks wait for the last one of the group and
finish together. Clocks differ by up to 3 ms from true time, computation varies by 2%; on the late rank it takes
``--slower`` times as long. ``--operators`` sets the number of operators (one kernel each) per layer, and thereby the
file size. The same arguments give the same files.
"""

from __future__ import annotations

import argparse
import gzip
import random
from pathlib import Path

GROUP = 8
"""Devices per machine, and default size of a tensor-parallel group."""
TRANSFER_US = {"tp": 45.0, "dp": 77.5}
ELEMENTS = {"tp": 8_388_608, "dp": 16_777_216}
"""Elements of an all-reduce of activations (``tp``), and of the gradients of one layer (``dp``)."""
KERNELS = (
    ("aten::mm", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute", 40.0),
    ("aten::layer_norm", "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
     "(int, float, c10::BFloat16 const*)", 9.0),
    ("aten::gelu", "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>(int)", 7.0),
    ("aten::scaled_dot_product_attention", "flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4>>", 62.0),
    ("aten::add", "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)", 5.0),
)
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
OLD_ALL_REDUCE = "ncclKernel_AllReduce_RING_LL_Sum_bf16(ncclWorkElem)"
"""Its name in NCCL before 2.18."""
_SLICE = '{{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}}'.format
_MEMORY = (
    '{{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":{},"tid":{},"ts":{:.3f},"args":{{'
    '"Total Reserved":{},"Total Allocated":{},"Bytes":{},"Device Id":{},"Device Type":1,"Addr":7}}}}'
).format
_HEAD = (
    '{{"schemaVersion":1,"deviceProperties":[{{"id":{0},"name":"Made-up GPU","totalGlobalMem":85899345920,'
    '"computeMajor":9,"computeMinor":0,"numSms":132}}],"distributedInfo":{{"backend":"nccl","rank":{1},'
    '"world_size":{2}}},"hostname":"node{3:03}","traceEvents":[\n'
).format


class Rank:
    """The trace of one rank under construction: events as text; ``host`` and ``free``: busy until these times, µs."""

    def __init__(self, rank: int, ranks: int, clock_us: float, speed: float) -> None:
        self.rank, self.clock, self.speed = rank, 1_700_000_000_000_000 + clock_us, speed
        self.device, self.pid = rank % GROUP, 4000 + rank % GROUP
        self.events: list[str] = []
        self.host = self.free = 0.0
        self.correlation = 0
        self.head = _HEAD(self.device, rank, ranks, rank // GROUP)

    def slice(self, category: str, name: str, start: float, duration: float, more: str = "", stream: int = 0) -> None:
        """Add a slice on the host or on a device stream."""
        pid, tid = (self.device, stream) if stream else (self.pid, self.pid)
        self.events.append(_SLICE(category, name, pid, tid, self.clock + start, duration, more))

    def launch(self, operator: str, kernel: str, micros: float, args: str = "", stream: int = 7) -> tuple[float, str]:
        """Add an operator, its launch call and, if ``micros``, its kernel; returns the kernel's start and arguments."""
        self.correlation += 1
        number = self.correlation
        self.slice("cpu_op", operator, self.host, 6.0, f'"External id":{number}')
        tied = f'"External id":{number},"correlation":{number}'
        self.slice("cuda_runtime", "cudaLaunchKernel", self.host + 1.5, 3.0, tied)
        start = max(self.free + 1.0, self.host + 4.5)
        self.host += 6.5
        told = f'"device":{self.device},"stream":{stream},{tied}{args}'
        if micros:
            self.slice("kernel", kernel, start, micros, told + ',"grid":[132,1,1],"block":[256,1,1]', stream)
            self.free = start + micros
        return start, told

    def text(self) -> str:
        """The whole file as text."""
        return self.head + ",\n".join(self.events) + "\n]}\n"


def job(
    ranks: int, steps: int, layers: int, operators: int, late: int | None, slower: float, seed: int,
    warm_up: float = 1.0, all_reduce: str = ALL_REDUCE, group: int = GROUP,
) -> list[Rank]:
    """The ranks with all their events. Memory use grows with the rank, so that the last one is closest to its limit.

    Kernels of the first step take ``warm_up`` times as long.
    """
    rng = random.Random(seed)
    made = [
        Rank(rank, ranks, rng.uniform(-3000, 3000), slower if rank == late else 1.0) for rank in range(ranks)
    ]
    sequence: dict[str, int] = {}
    for step in range(steps):
        begun = [one.host for one in made]
        for one in made:
            one.slice("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", one.host, 30.0)
            one.host += 35.0
            taken = int((30 + 40 * one.rank / max(ranks - 1, 1)) * (1 << 30))
            at = one.clock + one.host
            one.events.append(_MEMORY(one.pid, one.pid, at, taken + (2 << 30), taken, 4096, one.device))
        for _ in range(layers):
            for one in made:
                for number in range(operators):
                    operator, kernel, micros = KERNELS[number % len(KERNELS)]
                    slow = one.speed * (warm_up if not step else 1.0)
                    one.launch(operator, kernel, micros * slow * rng.uniform(0.98, 1.02))
            for first in range(0, ranks, group):
                _together(made[first : first + group], "tp", 1, f"tp{first // group}", sequence, all_reduce)
        for place in range(min(group, ranks)):
            _together(made[place::group], "dp", layers, f"dp{place}", sequence, all_reduce)
        for one, start in zip(made, begun, strict=True):
            end = max(one.host, one.free)
            one.slice("user_annotation", f"ProfilerStep#{step + 3}", start, end - start)
            one.host = end + 5.0
    return made


def _together(group: list[Rank], kind: str, layers: int, name: str, sequence: dict[str, int], kernel: str) -> None:
    """Add one all-reduce of a group: all ranks finish one transfer time after the last one arrives."""
    if len(group) < 2:
        return
    number = sequence[name] = sequence.get(name, 0) + 1
    members, elements = ", ".join(str(one.rank) for one in group), ELEMENTS[kind] * layers
    args = (
        f',"Collective name":"allreduce","In msg nelems":{elements},"Out msg nelems":{elements},'
        f'"Group size":{len(group)},"dtype":"BFloat16","Process Group Name":"{name}","Seq":{number},'
        f'"Process Group Ranks":"[{members}]"'
    )
    came = [one.launch("c10d::allreduce_", kernel, 0, args, 20) for one in group]
    end = max(start for start, _ in came) + TRANSFER_US[kind] * layers
    for one, (start, told) in zip(group, came, strict=True):
        one.slice("kernel", kernel, start, end - start, told, 20)
        one.free = end


def write(folder: Path, made: list[Rank], packed: bool = True) -> int:
    """Write the files; returns the uncompressed bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for one in made:
        text = one.text().encode()
        total += len(text)
        name = folder / f"rank{one.rank:04}.pt.trace.json"
        if packed:
            Path(f"{name}.gz").write_bytes(gzip.compress(text, 1, mtime=0))
        else:
            name.write_bytes(text)
    return total


def main() -> None:
    """Write the job according to the command line."""
    parser = argparse.ArgumentParser(description="Write the traces of a made-up job.")
    parser.add_argument("folder", type=Path)
    for name, value in (("ranks", 8), ("steps", 4), ("layers", 4), ("operators", 3), ("late", 5), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--tensor-parallel", type=int, default=GROUP, help="ranks that share each layer")
    parser.add_argument("--slower", type=float, default=1.2)
    parser.add_argument("--plain", action="store_true", help="not compressed")
    parser.add_argument("--old-names", action="store_true", help="collectives as NCCL named them before 2.18")
    chosen = parser.parse_args()
    made = job(
        chosen.ranks, chosen.steps, chosen.layers, chosen.operators, chosen.late if chosen.late >= 0 else None,
        chosen.slower, chosen.seed, all_reduce=OLD_ALL_REDUCE if chosen.old_names else ALL_REDUCE,
        group=max(1, chosen.tensor_parallel),
    )
    print(f"{write(chosen.folder, made, not chosen.plain):,} bytes of events in {chosen.ranks} files")


if __name__ == "__main__":
    main()
