"""Make ``nsys.sqlite``: a small Nsight Systems export as written by ``nsys export --type sqlite`` (schema 3.20).

Two processes, each on its own GPU, run four steps of a toy training loop: an H2D copy, five kernels (one of them an
all-reduce) in NVTX ranges as pushed by PyTorch's ``emit_nvtx``, an optimizer replayed from a graph, and a final wait.
Run it again after changing it: ``python samples/make_nsys.py [FILE]``. It also makes ``nsys_report/`` (a stand-in for a
report, with its export beside it) and, with polars, ``nsys_pqtdir/``, the same tables as Parquet.
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

TABLES = """
create table StringIds (id integer not null primary key, value text not null);
create table ENUM_NSYS_EVENT_TYPE (id integer not null primary key, name text, label text);
create table META_DATA_EXPORT (name text not null, value text);
create table META_DATA_CAPTURE (name text not null, value text);
create table TARGET_INFO_SESSION_START_TIME (utcEpochNs integer, utcTime text, localTime text);
create table TARGET_INFO_GPU (vmId integer not null, id integer not null, name text, busLocation text,
  totalMemory integer, memoryBandwidth integer, clockRate integer, smCount integer, chipName text,
  computeMajor integer, computeMinor integer);
create table TARGET_INFO_CUDA_DEVICE (gpuId integer, cudaId integer not null, pid integer not null);
create table TARGET_INFO_GPU_METRICS (typeId integer not null, sourceId integer not null, typeName text not null,
  metricId integer not null, metricName text not null);
create table GPU_METRICS (timestamp integer, typeId integer not null, metricId integer not null,
  value integer not null);
create table DIAGNOSTIC_EVENT (timestamp integer not null, timestampType integer not null, source integer not null,
  severity integer not null, text text not null, globalPid integer);
create table CUPTI_ACTIVITY_KIND_KERNEL (start integer not null, end integer not null, deviceId integer not null,
  contextId integer not null, greenContextId integer, streamId integer not null, correlationId integer,
  globalPid integer, demangledName integer not null, shortName integer not null, mangledName integer,
  launchType integer, cacheConfig integer, registersPerThread integer not null, gridX integer not null,
  gridY integer not null, gridZ integer not null, blockX integer not null, blockY integer not null,
  blockZ integer not null, staticSharedMemory integer not null, dynamicSharedMemory integer not null,
  localMemoryPerThread integer not null, localMemoryTotal integer not null, gridId integer not null,
  sharedMemoryExecuted integer, graphNodeId integer, sharedMemoryLimitConfig integer);
create table CUPTI_ACTIVITY_KIND_MEMCPY (start integer not null, end integer not null, deviceId integer not null,
  contextId integer not null, greenContextId integer, streamId integer not null, correlationId integer,
  globalPid integer, bytes integer not null, copyKind integer not null, deprecatedSrcId integer, srcKind integer,
  dstKind integer, graphNodeId integer);
create table CUPTI_ACTIVITY_KIND_MEMSET (start integer not null, end integer not null, deviceId integer not null,
  contextId integer not null, greenContextId integer, streamId integer not null, correlationId integer,
  globalPid integer, value integer not null, bytes integer not null, graphNodeId integer, memKind integer);
create table CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start integer not null, end integer not null,
  deviceId integer not null, contextId integer not null, greenContextId integer, streamId integer not null,
  correlationId integer, globalPid integer, syncType integer not null, eventId integer not null);
create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer not null, end integer not null, eventClass integer not null,
  globalTid integer, correlationId integer, nameId integer not null, returnValue integer not null,
  callchainId integer);
create table NVTX_EVENTS (start integer not null, end integer, eventType integer not null, rangeId integer,
  category integer, color integer, text text, globalTid integer, endGlobalTid integer, textId integer,
  domainId integer);
create table OSRT_API (start integer not null, end integer not null, eventClass integer not null, globalTid integer,
  nameId integer not null, returnValue integer not null, nestingLevel integer, callchainId integer not null);
create table SCHED_EVENTS (start integer not null, cpu integer not null, isSchedIn integer not null,
  globalTid integer, threadState integer, threadBlock integer);
"""

STEPS, STEP_NS = 4, 2_000_000
LAYERS = (
    ("aten::linear", "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_128x128_32x5_tn_align8>(T1::Params)",
     (64, 2, 1), (128, 1, 1), 202, 81_920, 210_000),
    ("aten::gelu", "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl("
     "at::TensorIteratorBase &, at::native::GeluType)::[lambda()]>(int, T2, T3)",
     (1024, 1, 1), (128, 1, 1), 40, 0, 38_000),
    ("aten::native_layer_norm", "void at::native::<unnamed>::vectorized_layer_norm_kernel<c10::Half, float>(int, T2, "
     "const T1 *, const T1 *, T2 *, T2 *, T1 *)", (2048, 1, 1), (32, 4, 1), 48, 24, 55_000),
    ("AddmmBackward0", "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_nt", (32, 4, 2), (128, 1, 1), 122,
     49_152, 330_000),
    ("c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
     (24, 1, 1), (544, 1, 1), 96, 0, 150_000),
)
_OPTIMIZER = "void at::native::multi_tensor_apply_kernel<at::native::FusedAdamMathFunctor<float, 4>>(T1, T2, T3)"
_CALLS = ("cudaLaunchKernel_v7000", "cuLaunchKernelEx", "cudaMemcpyAsync_v3020", "cudaMemsetAsync_v3020",
          "cudaStreamSynchronize_v3020", "cudaGraphLaunch_v10000")
METRICS = ("SMs Active [Throughput %]", "Tensor Active [Throughput %]", "DRAM Read Bandwidth [Throughput %]",
           "GPC Clock Frequency [MHz]")


class Strings:
    """StringIds: one id per text."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def __getitem__(self, text: str) -> int:
        return self.ids.setdefault(text, 30 + len(self.ids))


def global_id(pid: int, tid: int = 0) -> int:
    """A serialised global id: virtual machine, process and thread in one integer."""
    return 1 << 48 | pid << 24 | tid


def process(database: sqlite3.Connection, strings: Strings, pid: int, gpu: int) -> None:
    """Add one process with its steps: deterministic, 5% slower on the second GPU."""
    thread, whole = global_id(pid, pid), global_id(pid)
    correlation, slow = 100, 1.0 + 0.05 * gpu

    def call(name: int, length: int, at: int) -> None:
        database.execute(
            "insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?, ?, ?, ?, ?, ?, 0, null)",
            (at, at + length, int(name == 1), thread, correlation, strings[_CALLS[name]]),
        )

    def event(table: str, at: int, length: int, *values: int | None) -> None:
        marks = ", ".join("?" * (8 + len(values)))
        database.execute(
            f"insert into {table} values ({marks})",
            (at, at + length, 0, 1, 0, 7, correlation, whole, *values),
        )

    for step in range(STEPS):
        begin = 1_000_000 + step * STEP_NS
        host, device = begin + 20_000, begin + 60_000
        database.execute(
            "insert into NVTX_EVENTS values (?, ?, 59, null, null, null, ?, ?, null, null, 0)",
            (begin, begin + STEP_NS - 100_000, f"step {step}", thread),
        )

        correlation += 1
        call(2, 9_000, host)
        event("CUPTI_ACTIVITY_KIND_MEMCPY", device, 24_000, 1 << 20, 1, 0, 1, 2, None)
        correlation += 1
        call(3, 4_000, host + 12_000)
        event("CUPTI_ACTIVITY_KIND_MEMSET", device + 25_000, 2_000, 0, 65_536, None, 2)
        host, device = host + 20_000, device + 30_000
        for number, (operator, kernel, grid, block, registers, shared, duration) in enumerate(LAYERS):
            correlation += 1
            database.execute(
                "insert into NVTX_EVENTS values (?, ?, 59, null, null, null, ?, ?, null, null, 0)",
                (host, host + 30_000, f"{operator}, op_id = {step * 10 + number}", thread),
            )
            call(int(number == 0), 8_000, host + 12_000)
            length = int(duration * slow) + 500 * step
            event(
                "CUPTI_ACTIVITY_KIND_KERNEL", device, length, strings[kernel], strings[kernel.split("(")[0][-40:]],
                None, 1, 0, registers, *grid, *block, 0, shared, 0, 0, correlation, 102_400, None, 0,
            )
            host, device = host + 40_000, device + length + 3_000
        correlation += 1
        database.execute(
            "insert into NVTX_EVENTS values (?, ?, 59, null, null, null, null, ?, null, ?, 0)",
            (host, host + 40_000, thread, strings["Optimizer.step#AdamW.step"]),
        )
        call(5, 11_000, host + 10_000)
        for node in (1, 2):
            event(
                "CUPTI_ACTIVITY_KIND_KERNEL", device, 90_000, strings[_OPTIMIZER], strings["multi_tensor_apply_kernel"],
                None, 1, 0, 64, 320, 1, 1, 512, 1, 1, 0, 0, 0, 0, correlation, 102_400, 5 << 32 | node, 0,
            )
            device += 93_000
        correlation += 1
        call(4, device - host - 60_000, host + 60_000)
        event("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", host + 62_000, device - host - 62_000, 3, 0)
        database.execute(
            "insert into OSRT_API values (?, ?, 27, ?, ?, 0, 0, 0)",
            (device + 5_000, device + 45_000, thread, strings["read" if step % 2 else "pthread_cond_wait"]),
        )
        database.executemany("insert into SCHED_EVENTS values (?, ?, ?, ?, 0, null)", [
            (begin - 5_000, 4 + gpu, 1, thread), (host + 70_000, 4 + gpu, 0, thread),
        ])


def make(path: Path) -> None:
    """Write the export, replacing an existing file."""
    path.unlink(missing_ok=True)
    strings = Strings()
    database = sqlite3.connect(path)
    database.execute("pragma page_size = 1024")
    database.executescript(TABLES)
    for gpu, pid in enumerate((4242, 4243)):
        process(database, strings, pid, gpu)
        kind = 1 << 56 | gpu
        database.execute(
            "insert into TARGET_INFO_GPU values (?, ?, 'NVIDIA A100-SXM4-40GB', ?, ?, ?, ?, 108, 'GA100', 8, 0)",
            (1 << 48, gpu, f"0000:{gpu + 1:02}:00.0", 42_298_834_944, 1_555_200_000_000, 1_410_000_000),
        )
        database.execute("insert into TARGET_INFO_CUDA_DEVICE values (?, 0, ?)", (gpu, pid))
        for number, name in enumerate(METRICS):
            database.execute("insert into TARGET_INFO_GPU_METRICS values (?, 1, ?, ?, ?)", (
                kind, "GPU Metrics [NVIDIA A100]", number, name,
            ))
            for tick in range(STEPS * 10):
                value = 1410 - 15 * gpu if number == 3 else (tick * 7 + number * 11) % 90
                database.execute(
                    "insert into GPU_METRICS values (?, ?, ?, ?)", (1_000_000 + tick * 200_000, kind, number, value)
                )
    database.executemany("insert into META_DATA_EXPORT values (?, ?)", [
        ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"), ("EXPORT_PRODUCT_VERSION", "2025.3.1.90"),
        ("EXPORT_SCHEMA_VERSION", "3.20.2"),
    ])
    database.execute("insert into TARGET_INFO_SESSION_START_TIME values (1750000000000000000, '', '')")
    database.executemany("insert into DIAGNOSTIC_EVENT values (0, 1, 1, ?, ?, ?)", [
        (2, "Not all NVTX events might have been collected.", global_id(4242)),
        (1, "Number of NVTX events collected: 56.", global_id(4242)),
    ])
    database.executemany("insert into ENUM_NSYS_EVENT_TYPE values (?, ?, ?)", [
        (59, "NvtxPushPopRange", "NvtxPushPopRange"), (60, "NvtxStartEndRange", "NvtxStartEndRange"),
    ])
    database.executemany("insert into StringIds (value, id) values (?, ?)", strings.ids.items())
    database.commit()
    database.execute("vacuum")
    database.close()


def make_parquet(database: Path, folder: Path) -> None:
    """Write the tables that have rows as Parquet files."""
    import polars as pl

    folder.mkdir(exist_ok=True)
    connection = sqlite3.connect(database)
    names = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
    for name in names:
        rows = connection.execute(f"select * from {name}")
        columns, cells = [column[0] for column in rows.description], rows.fetchall()
        if cells:
            frame = pl.DataFrame(cells, schema=columns, orient="row", infer_schema_length=None)
            frame.write_parquet(folder / f"{name}.parquet", statistics=False)
    connection.close()


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    made = Path(sys.argv[1]) if len(sys.argv) > 1 else here / "nsys.sqlite"
    make(made)
    if len(sys.argv) == 1:
        make_parquet(made, here / "nsys_pqtdir")
        beside = here / "nsys_report"
        beside.mkdir(exist_ok=True)
        (beside / "toy.sqlite").write_bytes(made.read_bytes())
        (beside / "toy.nsys-rep").write_bytes(b"made up: the format of reports is not published\n")
