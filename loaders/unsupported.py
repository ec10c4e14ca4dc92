"""Explains files that no loader recognises: what they are, or the nearest format, and how to get a file that opens.

Consulted last, so an entry here never takes a file away from a loader. The nearest format is found only by the file's
beginning (columns of a table, keys of a document); it is a hint for the user and decides nothing.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

from . import csv_table, kineto
from .nsys_stats.reports import title_of

RECORD = ("Give a recording of a profiler or a log of a monitor: `warplens formats` lists those that are read, with "
          "the command that writes each.")
"""The general advice."""
_ANOTHER = "Give the profiler's trace, not this file."
_UNPACK = "Unpack it and give the trace inside."
_RECOMPRESS = "Unpack it, or compress it with gzip or zstd instead."
_BINARY = "It may have been damaged by a copy in text mode; copy it again in binary mode."
_KINETO = "Export the trace itself with `prof.export_chrome_trace('trace.json')`."
_NSYS = "Export it with `nsys export --type sqlite FILE` and open the .sqlite file."
_TABLES_OF_NSYS = "Of a report of Nsight Systems open the export `nsys export --type sqlite FILE` instead."
_SNAPSHOT = "Memory snapshots are read as `torch.cuda.memory._dump_snapshot('file.pickle')` writes them."
_NCU = "Print it with `ncu --import FILE --csv --page raw` (or `--page details`) into a file and open that."

_SEMICOLONS = re.compile(rb"\A[^\n,]*;[^\n,]*;[^\n,]*\n")
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (b"\x89PNG", "is a PNG picture", _ANOTHER),
    (b"\xff\xd8\xff", "is a JPEG picture", _ANOTHER),
    (b"GIF8", "is a GIF picture", _ANOTHER),
    (b"%PDF", "is a PDF document", _ANOTHER),
    (b"PK\x03\x04", "is a zip archive", _UNPACK),
    (b"7z\xbc\xaf", "is a 7z archive", _UNPACK),
    (b"\x04\x22\x4d\x18", "is compressed with lz4", _RECOMPRESS),
    (b"\x7fELF", "is a program", _ANOTHER),
    (b"PAR1", "is a Parquet table", _TABLES_OF_NSYS),
    (b"ARROW1", "is an Arrow table (as `nsys export --type arrow` writes)", _TABLES_OF_NSYS),
    (b"\xff\xff\xff\xff", "is a stream of Arrow tables (as `nsys export --type arrow` writes)", _TABLES_OF_NSYS),
    (b"\x89HDF", "is an HDF5 file (as `nsys export --type hdf` writes)", _TABLES_OF_NSYS),
    (b"PERFILE2", "is a Linux perf recording", "Open it with `perf report`; warplens reads GPU profilers' traces."),
    *((bytes((0x80, protocol)), "is a pickle, but not a memory snapshot", _SNAPSHOT) for protocol in range(2, 6)),
)

_SUFFIX: tuple[tuple[tuple[str, ...], str, str], ...] = (
    ((".qdstrm",), "is a raw stream of Nsight Systems, not a report", (
        "Make a report of it with `QdstrmImporter -i FILE` where Nsight Systems is installed, then export that: "
        "`nsys export --type sqlite`."
    )),
    ((".nsight-cuprof-report",), "is a report of an early Nsight Compute", _NCU),
    ((".xplane.pb",), "is named as an XLA profile, but does not begin as one", _BINARY),
    ((".pftrace", ".perfetto-trace"), "is named as a Perfetto trace, but does not begin with its packets", _BINARY),
)

_KERNEL_TRACE = "Open the kernel trace of the same run (`rocprofv3 --kernel-trace --output-format csv`)."
_WORKLOAD = "Open its folder, or the pmc_perf.csv in it."
_STATS = ("Print another (`nsys stats --report cuda_gpu_trace,cuda_api_sum --format csv FILE`) or open the report's "
          "export: `nsys export --type sqlite FILE`.")
_ATT = "Open the kernel trace of the same run (`rocprofv3 --kernel-trace --output-format csv`)."
_NVIDIA = ("Record it with its header and an index: `nvidia-smi "
           "--query-gpu=timestamp,index,utilization.gpu,power.draw --format=csv -lms 100`.")
_AMD = "Record it as CSV: `amd-smi monitor --csv -w 1` or `rocm-smi --showuse --showpower --csv`."
_HEADERS: tuple[tuple[frozenset[str], str, str], ...] = tuple(
    (frozenset(columns.split("," if "," in columns or columns == "virtual address" else None)), reason, advice)
    for columns, reason, advice in (
        ("sample_timestamp exec_mask dispatch_id", "holds program-counter samples, but no kernels", _KERNEL_TRACE),
        ("node_id logical_node_id agent_type", "is the list of agents of a rocprofv3 run, not a trace", _KERNEL_TRACE),
        ("counter_name counter_value kernel_name", "holds counters of kernels without their times", _KERNEL_TRACE),
        ("workload_name gpu_model gpu_arch", "describes the machine of a rocprofiler-compute workload", _WORKLOAD),
        ("dispatch_id kernel_name gpu_id", "lists kernels of a rocprofiler-compute workload without times", _WORKLOAD),
        ("codeobj vaddr instruction hitcount", "is a thread trace (ATT) of rocprofv3, which names instructions, not "
         "kernels", _ATT),
        ("correlation_id instruction instruction_comment", "holds program-counter samples of rocprofv3", _ATT),
        ("virtual address", "is a report of nsys stats about unified memory, which warplens does not use", _STATS),
        *((columns, "is a report of nsys stats that warplens does not use", _STATS) for columns in (
            "cpu page faults,cpu instruction address", "total cpu page faults,total gpu pagefaults",
            "api start (ns),kernel start (ns)", "total (mb),source,function", "start (ns),event,peerrank")),
        ("api name,kernel name,kavg (ns)", "is a report of nsys stats that warplens does not use", _STATS),
        ("range,style,total proj time (ns)", "is a report of nsys stats about ranges projected on the device, which "
         "warplens does not use", _STATS),
        ("nvtx range,style,kernel name", "is a report of nsys stats about kernels by range, which warplens does not "
         "use", _STATS),
        (
            "index kernelname gpu-id", "is a result of rocprof without times",
            "Record it again with `rocprof --timestamp on` and open that.",
        ),
    )
)
"""(lower-case CSV header columns, what the file is, advice) for tables of AMD's tools that are not traces."""

_PRINTED: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    (re.compile(rb'^==\d+== (NVPROF|Profiling)|\A\s*"?Type"?,"?Time\(%\)"?,|\A\s*"?Start"?,"?Duration"?,"?Grid', re.M),
     "is printed by nvprof, which is not supported", "Record with Nsight Systems: `nsys profile -o run PROGRAM`."),
    (re.compile(rb"\A(?:\s*StringTable\b|[^{]{0,200}\b(?:CudaEvent|NvtxEvent|TraceProcessEvent) *:? *\{)"),
     "is an export of Nsight Systems as text, which warplens does not read", _NSYS),
    (re.compile(rb"\bNCCL (?:INFO|WARN|TRACE)\b"), "is a log of NCCL (NCCL_DEBUG), which holds no times of kernels",
     "Give the flight recorder's dumps (TORCH_NCCL_TRACE_BUFFER_SIZE=2000), or a trace of a profiler."),
    (re.compile(rb"Self CPU %"), "is the table that key_averages() prints, not a trace", _KINETO),
    (re.compile(rb"Projected Start \("), "holds ranges of nsys stats, but no activities", _NSYS),
    (re.compile(rb"\A[^\n]*\bRAM \d+/\d+MB"), "is a log of tegrastats, which warplens does not read",
     "Record with Nsight Systems on the board (`nsys profile PROGRAM`, `nsys export --type sqlite FILE`)."),
    (re.compile(rb"\A\s*GPU +[^\n]*\b(?:POWER|GFX|VRAM|XCP|TEMP)"), "is the table that amd-smi prints", _AMD),
    (re.compile(rb"(?:=+ ROCm System Management Interface =+|\bconcise info\b)", re.I), "is printed by rocm-smi", _AMD),
    (re.compile(rb"\A\s*GPU: \d+\s"), "is printed by amd-smi", _AMD),
    (re.compile(rb"\| NVIDIA-SMI \d|=+NVSMI LOG=+|<nvidia_smi_log>|\bnvidia_smi_log\b"),
     "is a status printed by nvidia-smi, one moment only", _NVIDIA),
    (re.compile(rb"\A(?:\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}|(?:\d+, )?(?:NVIDIA|Tesla|Quadro|GeForce) [^,\n]*"
                rb"|GPU-[\da-f-]{36}), "), "is a query of nvidia-smi without its header", _NVIDIA),
    (re.compile(rb"\AGPU \d+: [^\n]*\(UUID: |\A\s*(?:\x1b\[4m)?GPU0\t[^\n]*Affinity"),
     "is printed by nvidia-smi, and holds no values in time", _NVIDIA),
    (re.compile(rb"\A(?:gpu_name|gpu_uuid|gpu_bus_id), pid,"),
     "is a query of nvidia-smi about processes, without times of values", _NVIDIA),
    (re.compile(rb"\A\d+ GPUs? found|\| GPU ID \||Successfully ran diagnostic"), "is printed by dcgmi, one moment only",
     "Record with `dcgmi dmon -e 1002,1004,155 -d 1000`."),
    (re.compile(rb"\A\s*Freq MHz +IRQ|\bintel_gpu_top\b|\bxpu-smi\b|^\| Device ID +\|", re.M),
     "is printed by a monitor of Intel GPUs (intel_gpu_top, xpu-smi), which warplens does not read", RECORD),
    (re.compile(rb"\A#? *(?:gpu|GPU) +(?:pid|gi|ci)\b"), "is a log of nvidia-smi that warplens does not read", _NVIDIA),
    (re.compile(rb"\A(?:Kind|Domain|Guid|\"Kind\"|\"Domain\");"), "is a table of rocprofv3 with semicolons",
     "Replace the semicolons with commas, as rocprofv3 wrote it."),
    (_SEMICOLONS, "is a table with semicolons, as spreadsheets write it",
     "Save it with commas, as its tool wrote it (nsys, rocprof, ncu and nvidia-smi all write commas)."),
)
"""(pattern in a text file, what the file is, advice)."""

_ASCEND = "is a database of Ascend's profiler without the tables of tasks and texts", (
    "Open the folder ASCEND_PROFILER_OUTPUT (kernel_details.csv, trace_view.json). Where it has the database only, "
    "write the others: `from torch_npu.profiler.profiler import analyse; analyse('FOLDER', export_type='text')`."
)


_INSPECTOR = "is written by NCCL Inspector, which warplens does not read", (
    "Give the dumps of PyTorch's flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE=2000, TORCH_NCCL_DUMP_ON_TIMEOUT=1) to "
    "see which rank is missing."
)
_AUTOGRAD = "is a list of torch.autograd.profiler, from before Kineto, without categories", (
    "Record it again with `torch.profiler.profile(…)` and `prof.export_chrome_trace('trace.json')`."
)
_NSYS_TEXT = re.compile(rb'\A\s*\{\s*"(?:Type|data|table|CudaEvent|NvtxEvent|TraceProcessEvent|GpuInfo|id)"\s*:')
_NSYS_KEYS = re.compile(rb'"(?:CudaEvent|NvtxEvent|TraceProcessEvent|startNs|StringTable)"')
_SMI_JSON = re.compile(rb'\A\s*\{\s*"(?:card\d+|system)"\s*:\s*\{')
_AMD_JSON = re.compile(rb'\A\s*\[?\s*\{\s*"gpu"\s*:\s*\d')


def recognise(path: Path, head: bytes) -> tuple[str, str] | None:
    """(what the file is, as a clause that follows its name; advice); None for unknown files."""
    name = path.name.lower()
    for suffixes, reason, advice in _SUFFIX:
        if name.endswith(suffixes):
            return reason, advice
    for magic, reason, advice in _MAGIC:
        if head.startswith(magic):
            return reason, advice
    if head[257:262] == b"ustar":
        return "is a tar archive", _UNPACK
    if title_of(path.name) and b"," in head and not _SEMICOLONS.search(head):
        return f"is the report {title_of(path.name)} of nsys stats, which warplens does not use", _STATS
    if head.startswith(b"SQLite format 3\0"):
        if name.startswith(("ascend_pytorch_profiler", "msprof_")) or b"COMPUTE_TASK_INFO" in head:
            return _ASCEND
        return _database(head)
    return _text(head)


def _database(head: bytes) -> tuple[str, str]:
    if b"rocpd_" in head:
        return "is a rocmProfileData or rocprofv3 database without kernel tables", (
            "Give the .rpd file that the tracer wrote, or the .db file of `rocprofv3 --output-format rocpd`."
        )
    if b"StringTable" in head and b"CUPTI_ACTIVITY_KIND_" in head:
        return "is an nvprof database, which is not supported", (
            "Record it with Nsight Systems and export that: `nsys export --type sqlite FILE`."
        )
    return "is an SQLite database, but not an Nsight Systems export", _NSYS


_NS_COLUMN = re.compile(rb"(?:Avg|Med|Min|Max|StdDev) \((?:ns|us|ms|s)\)")


def _text(head: bytes) -> tuple[str, str] | None:
    start = head.lstrip()
    if re.match(rb"\[\s*\[\s*-?\d", start):
        return "is a list of numbers (a memory timeline?), not a trace", _KINETO
    if start.startswith((b"{", b"[")):
        if re.search(rb'"(?:inspector_output_format_version|coll_perf)"', start[:4096]):
            return _INSPECTOR
        if re.match(rb"\[", start) and kineto.LEGACY.search(start):
            return _AUTOGRAD
        if _NSYS_TEXT.match(start) and _NSYS_KEYS.search(start):
            return "is an export of Nsight Systems as JSON, which warplens does not read", _NSYS
        if _SMI_JSON.match(start):
            return "is JSON of rocm-smi, one moment only", _AMD
        if re.match(rb'\{\s*"(?:code|waves|wave_filenames|occupancy)"\s*:', start):
            return "is a file of a thread trace (ATT) of rocprofv3, which names instructions, not kernels", _ATT
        if _AMD_JSON.match(start):
            return "is JSON of amd-smi", _AMD
        if b'"schema"' in head and (b'"nodes"' in head or b"chakra" in head):
            return "is an execution graph (ExecutionTraceObserver), not a trace", _KINETO
        if re.match(rb'\{\s*"(segments|device_traces)"', start):
            return "is a memory snapshot as JSON", _SNAPSHOT
        return None
    if b"\0" in head[:4096]:
        return None
    for pattern, reason, advice in _PRINTED:
        if pattern.search(head):
            return reason, advice
    columns = {cell.strip().strip(b'"').lower() for cell in start.split(b"\n", 1)[0].split(b",")}
    for needed, reason, advice in _HEADERS:
        if {column.encode() for column in needed} <= columns:
            return reason, advice
    if b"** CUDA GPU" in head or b"[cuda_gpu_" in head or b"Time (%)" in head or len(_NS_COLUMN.findall(head)) > 1:
        return "is an nsys stats report that warplens does not use", (
            "Print another (`nsys stats --report cuda_gpu_trace,cuda_api_sum FILE`) or open the .sqlite export."
        )
    return None


class Near(NamedTuple):
    """A table format: columns that every file of it has, and the command that writes one."""

    format: str
    columns: tuple[str, ...]
    make: str


_TABLES = (
    Near("nsys-stats", ("Start (ns)", "Duration (ns)", "Strm", "Name"),
         "nsys stats --report cuda_gpu_trace --format csv"),
    Near("nsys-stats", ("Time (%)", "Total Time (ns)", "Instances", "Name"), "nsys stats --report cuda_gpu_kern_sum"),
    Near("ncu", ("ID", "Process ID", "Kernel Name", "Metric Name", "Metric Value"), "ncu --csv --page details"),
    Near("rocprofv3-csv", ("Kind", "Agent_Id", "Queue_Id", "Kernel_Name", "Start_Timestamp", "End_Timestamp"),
         "rocprofv3 --kernel-trace --output-format csv"),
    Near("rocprof", ("Index", "KernelName", "BeginNs", "EndNs"), "rocprof --timestamp on"),
    Near("ascend", ("Name", "Type", "Start Time(us)", "Duration(us)"), "Ascend's profiler (torch_npu)"),
    Near("cycle-profile", ("cycle", "pid", "function_name", "metric_name", "device", "mu_pct", "duration"),
         "the tool that writes result_perf_data.csv"),
)
_TRACE_KEYS = ("traceEvents", "schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds")
_TOKEN = re.compile(rb'"((?:[^"\\]|\\.)*)"(\s*:)?|[{}\[\]]')
_LONGEST = 60  # Longer keys, in bytes, are not named.
_LEAST = 2  # Columns that must match for a format to count as near.
_TORCH = ("Record with PyTorch's profiler and export the trace itself (`prof.export_chrome_trace('trace.json')`); "
          "`warplens formats` lists what else is read.")


def nearest(head: bytes) -> tuple[str, str] | None:
    """(nearest format, as a clause that follows the file's name; advice); None if no format is near."""
    text = head.lstrip()
    if text.startswith((b"{", b"[")):
        return _document(text)
    return None if b"\0" in head[:4096] else _table(text)


def _document(text: bytes) -> tuple[str, str]:
    """``nearest`` for a JSON document: names its Chrome trace keys or, without any, its first keys."""
    keys = _top_level(text[:8192]) if text.startswith(b"{") else []
    if not keys:
        return "is JSON, but not a trace: its top level has no list of trace events", RECORD
    have = [key for key in _TRACE_KEYS if key in keys]
    listing = ", ".join(keys[:4]) + (", …" if len(keys) > 4 else "")
    if have:
        return f"looks most like kineto (it has {', '.join(have)}), but has no list of traceEvents", _TORCH
    return f"is JSON, but not a trace: kineto, the nearest format, needs traceEvents, and this has {listing}", RECORD


def _top_level(text: bytes) -> list[str]:
    """The keys of the outermost object only; deeper levels may hold anything, such as environment variables."""
    depth, keys = 0, []
    for token in _TOKEN.finditer(text):
        if token[0] in (b"{", b"["):
            depth += 1
        elif token[0] in (b"}", b"]"):
            depth -= 1
        elif token[2] and depth == 1 and len(token[1]) <= _LONGEST:
            keys.append(_plain(token[1]))
    return list(dict.fromkeys(keys))


def _plain(key: bytes) -> str:
    try:
        return str(json.loads(b'"' + key + b'"'))
    except ValueError:
        return key.decode("utf-8", "replace")


def _table(text: bytes) -> tuple[str, str] | None:
    """``nearest`` for a CSV table: the format with the largest share of its columns present, and the missing ones."""
    lines = [line.decode("utf-8", "replace") for line in text.split(b"\n", 30)[:30] if b"," in line]
    best: tuple[float, Near, list[str]] | None = None
    for line in lines:
        cells = {cell.strip().lower() for cell in csv_table.cells(line.strip())}
        for near in _TABLES:
            have = [column for column in near.columns if column.lower() in cells]
            share = len(have) / len(near.columns)
            if len(have) >= _LEAST and (best is None or share > best[0]):
                best = share, near, [column for column in near.columns if column not in have]
    if best is None:
        return None
    _, near, lacking = best
    lacks = f"lacks the columns {', '.join(lacking)}" if lacking else "has no readable row"
    return f"looks most like {near.format}, but {lacks}", f"`{near.make}` writes all of them. {RECORD}"
