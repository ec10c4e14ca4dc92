"""Writes the samples of AMD's formats: one synthetic training run, as each of the tools would have recorded it.

    python samples/make_rocm.py [folder]

Nothing here was recorded. Names and relations of columns and tables follow the tools' documentation and published
schemas; the times come from a seeded generator. All formats describe the same launches, so that the results of the
loaders can be compared with each other.
"""

from __future__ import annotations

import csv
import io
import json
import random
import sqlite3
import sys
from pathlib import Path
from typing import Any, NamedTuple

PID, TID, AGENT, QUEUE, STREAM = 4242, 4243, 4, 3, 1
BOOT = 3_489_389_197_000_000
STEPS = 4
UUID = "_00001a2b_0000_7000_8000_00000000abcd"
GUID = "00001a2b-0000-7000-8000-00000000abcd"
KERNELS = (
    ("Cijk_Ailk_Bljk_BBS_MT128x128x64_MI32x32x8", 61_000, (65536, 1, 1), (256, 1, 1), 84, 16384),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)", 7_300, (262144, 1, 1),
     (256, 1, 1), 16, 0),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 38_000, (8192, 1, 1), (256, 1, 1), 64,
     29_000),
)
COPY_BYTES = 4_194_304
ENVIRONMENT = '{"SECRET_TOKEN": "hunter2-never-shown"}'


class Activity(NamedTuple):
    """One device activity; ``kernel`` is an index into KERNELS, or -1 for a copy to the device."""

    kernel: int
    start: int
    end: int
    correlation: int
    dispatch: int


class Call(NamedTuple):
    """One host slice: an API call or a ROCTX range."""

    domain: str
    name: str
    start: int
    end: int
    correlation: int


def run() -> tuple[list[Activity], list[Call]]:
    """The run: every step is a copy, three kernels and a synchronising call inside a ROCTX range."""
    chance = random.Random(18)
    activities, calls, host, device, ids, dispatches = [], [], BOOT, BOOT, 0, 0
    for step in range(STEPS):
        ids += 1
        mark, begun = ids, host
        for kernel in (-1, 0, 1, 2):
            ids += 1
            name = "hipMemcpyAsync" if kernel < 0 else "hipLaunchKernel"
            calls.append(Call("HIP_RUNTIME_API", name, host + 1_000, host + 5_000, ids))
            length = 90_000 if kernel < 0 else KERNELS[kernel][1] + chance.randrange(2_000)
            device = max(device + 800, host + 6_000)
            dispatches += kernel >= 0
            activities.append(Activity(kernel, device, device + length, ids, dispatches))
            device, host = device + length, host + 9_000
        ids += 1
        calls.append(Call("HIP_RUNTIME_API", "hipDeviceSynchronize", host, device + 3_000, ids))
        host = device + 20_000
        calls.append(Call("MARKER_CORE_API", f"step {step}", begun, host - 5_000, mark))
    return activities, calls


def table(rows: list[dict[str, Any]], quoting: int = csv.QUOTE_NONNUMERIC) -> str:
    """CSV as rocprofv3 writes it: strings in quotes."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), quoting=quoting, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def csv_set() -> dict[str, str]:
    """The files of rocprofv3's CSV output, under the prefix 'run'."""
    activities, calls = run()
    kernels = [
        {
            "Kind": "KERNEL_DISPATCH", "Agent_Id": f"Agent {AGENT}", "Queue_Id": QUEUE, "Stream_Id": STREAM,
            "Thread_Id": TID, "Dispatch_Id": one.dispatch, "Kernel_Id": one.kernel + 10,
            "Kernel_Name": KERNELS[one.kernel][0], "Correlation_Id": one.correlation, "Start_Timestamp": one.start,
            "End_Timestamp": one.end, "LDS_Block_Size": KERNELS[one.kernel][5], "Scratch_Size": 0,
            "VGPR_Count": KERNELS[one.kernel][4], "Accum_VGPR_Count": 0, "SGPR_Count": 32,
            **{f"Workgroup_Size_{axis}": KERNELS[one.kernel][3][at] for at, axis in enumerate("XYZ")},
            **{f"Grid_Size_{axis}": KERNELS[one.kernel][2][at] for at, axis in enumerate("XYZ")},
        }
        for one in activities if one.kernel >= 0
    ]  # fmt: skip
    copies = [
        {
            "Kind": "MEMORY_COPY", "Direction": "MEMORY_COPY_HOST_TO_DEVICE", "Stream_Id": STREAM,
            "Source_Agent_Id": "Agent 0", "Destination_Agent_Id": f"Agent {AGENT}", "Correlation_Id": one.correlation,
            "Start_Timestamp": one.start, "End_Timestamp": one.end,
        }
        for one in activities if one.kernel < 0
    ]  # fmt: skip

    def of_domain(domain: str) -> list[dict[str, Any]]:
        return [
            {
                "Domain": one.domain, "Function": one.name, "Process_Id": PID, "Thread_Id": TID,
                "Correlation_Id": one.correlation, "Start_Timestamp": one.start, "End_Timestamp": one.end,
            }
            for one in calls if one.domain == domain
        ]  # fmt: skip

    counters = [
        {
            "Correlation_Id": one["Correlation_Id"], "Dispatch_Id": one["Dispatch_Id"], "Agent_Id": one["Agent_Id"],
            "Queue_Id": QUEUE, "Process_Id": PID, "Thread_Id": TID, "Grid_Size": one["Grid_Size_X"],
            "Kernel_Id": one["Kernel_Id"], "Kernel_Name": one["Kernel_Name"], "Workgroup_Size": 256,
            "LDS_Block_Size": one["LDS_Block_Size"], "Scratch_Size": 0, "VGPR_Count": one["VGPR_Count"],
            "Accum_VGPR_Count": 0, "SGPR_Count": 32, "Counter_Name": name, "Counter_Value": value,
            "Start_Timestamp": one["Start_Timestamp"], "End_Timestamp": one["End_Timestamp"],
        }
        for one in kernels for name, value in (
            ("MfmaUtil", 72.5 if one["Kernel_Id"] == 10 else 0.0), ("SQ_WAVES", 1024.0), ("OccupancyPercent", 31.25),
        )
    ]  # fmt: skip
    memory = [
        {
            "Kind": "MEMORY_ALLOCATION", "Operation": f"MEMORY_ALLOCATION_{what}", "Agent_Id": agent,
            "Allocation_Size": size, "Address": address, "Correlation_Id": 100 + at,
            "Start_Timestamp": BOOT + at * 20_000, "End_Timestamp": BOOT + at * 20_000 + 4_000,
        }
        for at, (what, agent, size, address) in enumerate((
            ("ALLOCATE", f"Agent {AGENT}", 8192, "0x00007ffb26354000"),
            ("ALLOCATE", f"Agent {AGENT}", 4096, "0x00007ffb168d6000"), ("FREE", "", 0, "0x00007ffb26354000"),
        ))
    ]  # fmt: skip
    scratch = [{
        "Kind": "SCRATCH_MEMORY", "Operation": "SCRATCH_MEMORY_ALLOC", "Agent_Id": f"Agent {AGENT}", "Queue_Id": QUEUE,
        "Thread_Id": TID, "Alloc_Flags": 0, "Start_Timestamp": BOOT + 2_000, "End_Timestamp": BOOT + 9_000,
    }]  # fmt: skip
    agents = [
        {
            "Node_Id": node, "Logical_Node_Id": at, "Agent_Type": kind, "Name": name, "Product_Name": product,
        }
        for at, (node, kind, name, product) in enumerate((
            (0, "CPU", "AMD EPYC", "AMD EPYC"), (AGENT, "GPU", "gfx942", "AMD Instinct MI300X"),
        ))
    ]  # fmt: skip
    return {
        "rocprofv3/run_kernel_trace.csv": table(kernels), "rocprofv3/run_memory_copy_trace.csv": table(copies),
        "rocprofv3/run_hip_api_trace.csv": table(of_domain("HIP_RUNTIME_API")),
        "rocprofv3/run_marker_api_trace.csv": table(of_domain("MARKER_CORE_API")),
        "rocprofv3/run_memory_allocation_trace.csv": table(memory),
        "rocprofv3/run_scratch_memory_trace.csv": table(scratch),
        "rocprofv3/run_agent_info.csv": table(agents),
        "rocprofv3_counters/counter_collection.csv": table(counters),
        "rocprofv3_counters/kernel_stats.csv": statistics(activities),
    }


def statistics(activities: list[Activity]) -> str:
    """The kernel summary (kernel_stats.csv)."""
    rows = []
    for number, kernel in enumerate(KERNELS):
        times = [one.end - one.start for one in activities if one.kernel == number]
        rows.append({
            "Name": kernel[0], "Calls": len(times), "TotalDurationNs": sum(times), "AverageNs": sum(times) / len(times),
            "Percentage": 0.0, "MinNs": min(times), "MaxNs": max(times), "StdDev": 0.0,
        })  # fmt: skip
    return table(rows)


def document() -> str:
    """The JSON output of rocprofv3."""
    activities, calls = run()
    kinds = ["NONE", "HIP_RUNTIME_API", "MARKER_CORE_API", "KERNEL_DISPATCH", "MEMORY_COPY"]
    names = {
        "HIP_RUNTIME_API": ["hipLaunchKernel", "hipMemcpyAsync", "hipDeviceSynchronize"],
        "MARKER_CORE_API": ["roctxRangePushA"], "MEMORY_COPY": ["NONE", "MEMORY_COPY_HOST_TO_DEVICE"],
    }

    def record(kind: str, operation: int, one: Activity | Call, **more: Any) -> dict[str, Any]:
        return {
            "size": 100, "kind": kinds.index(kind), "operation": operation, "thread_id": TID,
            "correlation_id": {"internal": one.correlation, "external": 0}, "start_timestamp": one.start,
            "end_timestamp": one.end, **more,
        }  # fmt: skip

    def extent(values: tuple[int, int, int]) -> dict[str, int]:
        return dict(zip("xyz", values, strict=True))

    dispatches = [
        record("KERNEL_DISPATCH", 2, one, stream_id={"handle": STREAM}, dispatch_info={
            "size": 72, "agent_id": {"handle": 900}, "queue_id": {"handle": QUEUE}, "kernel_id": one.kernel + 10,
            "dispatch_id": one.dispatch, "private_segment_size": 0, "group_segment_size": KERNELS[one.kernel][5],
            "workgroup_size": extent(KERNELS[one.kernel][3]), "grid_size": extent(KERNELS[one.kernel][2]),
        }) for one in activities if one.kernel >= 0
    ]  # fmt: skip
    copies = [
        record("MEMORY_COPY", 1, one, stream_id={"handle": STREAM}, bytes=COPY_BYTES, src_agent_id={"handle": 800},
               dst_agent_id={"handle": 900}) for one in activities if one.kernel < 0
    ]  # fmt: skip
    hip = [record(one.domain, names[one.domain].index(one.name), one) for one in calls if one.domain.startswith("HIP")]
    marks = [one for one in calls if one.domain.startswith("MARKER")]
    process = {
        "metadata": {"pid": PID, "command": ["python", "train.py", "--token", "hunter2-never-shown"]},
        "agents": [
            {"id": {"handle": 800}, "type": 1, "node_id": 0, "logical_node_type_id": 0, "name": "AMD EPYC"},
            {"id": {"handle": 900}, "type": 2, "node_id": AGENT, "logical_node_type_id": 0, "name": "gfx942",
             "product_name": "AMD Instinct MI300X", "cu_count": 304, "num_xcc": 8},
        ],
        "counters": [], "strings": {
            "callback_records": [],
            "buffer_records": [{"kind": kind, "operations": names.get(kind, [])} for kind in kinds],
            "marker_api": [{"key": one.correlation, "value": one.name} for one in marks],
        },
        "code_objects": [], "kernel_symbols": [
            {"size": 88, "kernel_id": at + 10, "kernel_name": f"{name}.kd", "demangled_kernel_name": name,
             "arch_vgpr_count": registers} for at, (name, _, _, _, registers, _) in enumerate(KERNELS)
        ],
        "callback_records": {"counter_collection": []},
        "buffer_records": {
            "kernel_dispatch": dispatches, "hip_api": hip, "memory_copy": copies,
            "marker_api": [record(one.domain, 0, one) for one in marks],
        },
    }  # fmt: skip
    return json.dumps({"rocprofiler-sdk-tool": [process]}, separators=(",", ":")) + "\n"


ROCPD = """
create table rocpd_metadata{u} (id integer primary key, tag text, value text);
create table rocpd_string{u} (id integer primary key, guid text, string text);
create table rocpd_info_process{u} (id integer primary key, guid text, nid integer, pid integer, command text,
    environment jsonb);
create table rocpd_info_thread{u} (id integer primary key, guid text, pid integer, tid integer);
create table rocpd_info_agent{u} (id integer primary key, guid text, type text, absolute_index integer,
    type_index integer, name text, product_name text);
create table rocpd_info_kernel_symbol{u} (id integer primary key, guid text, kernel_name text, display_name text,
    arch_vgpr_count integer);
create table rocpd_info_pmc{u} (id integer primary key, guid text, name text, symbol text, units text);
create table rocpd_event{u} (id integer primary key, guid text, category_id integer, stack_id integer,
    correlation_id integer, extdata jsonb);
create table rocpd_pmc_event{u} (id integer primary key, guid text, event_id integer, pmc_id integer, value real);
create table rocpd_region{u} (id integer primary key, guid text, nid integer, pid integer, tid integer, start bigint,
    end bigint, name_id integer, event_id integer);
create table rocpd_kernel_dispatch{u} (id integer primary key, guid text, nid integer, pid integer, tid integer,
    agent_id integer, kernel_id integer, dispatch_id integer, queue_id integer, stream_id integer, start bigint,
    end bigint, group_segment_size integer, workgroup_size_x integer, workgroup_size_y integer,
    workgroup_size_z integer, grid_size_x integer, grid_size_y integer, grid_size_z integer, region_name_id integer,
    event_id integer);
create table rocpd_memory_copy{u} (id integer primary key, guid text, nid integer, pid integer, tid integer,
    start bigint, end bigint, name_id integer, dst_agent_id integer, src_agent_id integer, size integer,
    queue_id integer, stream_id integer, event_id integer);
create table rocpd_memory_allocate{u} (id integer primary key, guid text, nid integer, pid integer, tid integer,
    agent_id integer, type text, level text, start bigint, end bigint, address integer, size integer, event_id integer);
"""


def rocpd(path: Path, suffix: str) -> None:
    """Write rocprofv3's database, with a table-name suffix and views over the tables, or with neither."""
    activities, calls = run()
    database = _empty(path, ROCPD.format(u=suffix))
    names = [row[0] for row in database.execute("select name from sqlite_master where type = 'table'")]

    def put(table: str, **values: Any) -> int:
        row = {"guid": GUID, **values} if table != "rocpd_metadata" else values
        columns, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
        cursor = database.execute(f"insert into {table}{suffix} ({columns}) values ({marks})", list(row.values()))
        return int(cursor.lastrowid or 0)

    strings: dict[str, int] = {}

    def string(text: str) -> int:
        if text not in strings:
            strings[text] = put("rocpd_string", string=text)
        return strings[text]

    def event(category: str, correlation: int, extra: str = "{}") -> int:
        return put("rocpd_event", category_id=string(category), stack_id=correlation, correlation_id=0, extdata=extra)

    put("rocpd_metadata", tag="schema_version", value="3")
    put("rocpd_info_process", id=1, nid=1, pid=PID, command="train.py", environment=ENVIRONMENT)
    put("rocpd_info_thread", id=1, pid=1, tid=TID)
    put("rocpd_info_agent", id=1, type="CPU", absolute_index=0, type_index=0, name="AMD EPYC", product_name="AMD EPYC")
    put("rocpd_info_agent", id=2, type="GPU", absolute_index=AGENT, type_index=0, name="gfx942",
        product_name="AMD Instinct MI300X")  # fmt: skip
    put("rocpd_info_pmc", id=1, name="SQ_WAVES", symbol="SQ_WAVES", units="")
    for at, (name, _, _, _, registers, _) in enumerate(KERNELS):
        put("rocpd_info_kernel_symbol", id=at + 10, kernel_name=f"{name}.kd", display_name=name,
            arch_vgpr_count=registers)  # fmt: skip
    for one in activities:
        place = {
            "nid": 1, "pid": 1, "tid": 1, "queue_id": QUEUE, "stream_id": STREAM, "start": one.start, "end": one.end,
        }  # fmt: skip
        if one.kernel < 0:
            put("rocpd_memory_copy", **place, name_id=string("MEMORY_COPY_HOST_TO_DEVICE"), dst_agent_id=2,
                src_agent_id=1, size=COPY_BYTES, event_id=event("MEMORY_COPY", one.correlation))  # fmt: skip
            continue
        _, _, grid, block, _, shared = KERNELS[one.kernel]
        happened = event("KERNEL_DISPATCH", one.correlation)
        put("rocpd_kernel_dispatch", **place, agent_id=2, kernel_id=one.kernel + 10, dispatch_id=one.dispatch,
            group_segment_size=shared, event_id=happened,
            **{f"workgroup_size_{axis}": block[at] for at, axis in enumerate("xyz")},
            **{f"grid_size_{axis}": grid[at] for at, axis in enumerate("xyz")})  # fmt: skip
        put("rocpd_pmc_event", event_id=happened, pmc_id=1, value=1024.0)
    for call in calls:
        mark = call.domain.startswith("MARKER")
        extra = json.dumps({"message": call.name}) if mark else "{}"
        put("rocpd_region", nid=1, pid=1, tid=1, start=call.start, end=call.end,
            name_id=string("roctxRangePushA" if mark else call.name),
            event_id=event(call.domain, call.correlation, extra))  # fmt: skip
    put("rocpd_memory_allocate", nid=1, pid=1, tid=1, agent_id=2, type="ALLOC", level="REAL", start=BOOT,
        end=BOOT + 4000, address=140_715_647_614_976, size=8192, event_id=event("MEMORY_ALLOCATION", 100))  # fmt: skip
    for name in names if suffix else ():
        database.execute(f"create view {name.removesuffix(suffix)} as select * from {name}")
    _close(database)


RPD = """
create table rocpd_string (id integer primary key autoincrement, string varchar(4096));
create table rocpd_op (id integer primary key autoincrement, gpuId integer, queueId integer, sequenceId integer,
    completionSignal varchar(18), start integer, end integer, description_id integer, opType_id integer);
create table rocpd_api (id integer primary key autoincrement, pid integer, tid integer, start integer, end integer,
    apiName_id integer, args_id integer);
create table rocpd_api_ops (id integer primary key autoincrement, api_id integer, op_id integer);
create table rocpd_kernelapi (api_ptr_id integer primary key, stream varchar(18), gridX integer, gridY integer,
    gridZ integer, workgroupX integer, workgroupY integer, workgroupZ integer, groupSegmentSize integer,
    privateSegmentSize integer, kernelName_id integer);
create table rocpd_copyapi (api_ptr_id integer primary key, stream varchar(18), size integer, kind integer);
create table rocpd_metadata (id integer primary key autoincrement, tag varchar(4096), value varchar(4096));
create table rocpd_monitor (id integer primary key autoincrement, deviceType varchar(16), deviceId integer,
    monitorType varchar(16), start integer, end integer, value varchar(255));
"""


def rpd(path: Path) -> None:
    """Write rocmProfileData's database; the kernels of the last step are a graph replay."""
    activities, calls = run()
    database = _empty(path, RPD)
    strings: dict[str, int] = {}

    def string(text: str) -> int:
        if text not in strings:
            cursor = database.execute("insert into rocpd_string (string) values (?)", (text,))
            strings[text] = int(cursor.lastrowid or 0)
        return strings[text]

    database.execute("insert into rocpd_metadata (tag, value) values ('schema_version', '2')")
    last = [one.correlation for one in activities if one.kernel >= 0][-len(KERNELS) :]
    for call in calls:
        name, args = ("UserMarker", call.name) if call.domain.startswith("MARKER") else (call.name, "")
        if call.correlation in last:
            if call.correlation != last[0]:
                continue
            name = "hipGraphLaunch"
        database.execute("insert into rocpd_api values (?, ?, ?, ?, ?, ?, ?)", (
            call.correlation, PID, TID, call.start, call.end, string(name), string(args),
        ))  # fmt: skip
    for one in activities:
        replayed = one.correlation in last
        kind = "CopyHostToDevice" if one.kernel < 0 else "Task" if replayed else "KernelExecution"
        text = "" if one.kernel < 0 else KERNELS[one.kernel][0]
        cursor = database.execute(
            "insert into rocpd_op (gpuId, queueId, sequenceId, completionSignal, start, end, description_id, opType_id)"
            " values (2, 0, 0, '', ?, ?, ?, ?)", (one.start, one.end, string(text), string(kind)),
        )  # fmt: skip
        api = last[0] if replayed else one.correlation
        database.execute("insert into rocpd_api_ops (api_id, op_id) values (?, ?)", (api, cursor.lastrowid))
        if one.kernel < 0:
            database.execute("insert into rocpd_copyapi values (?, '0x0', ?, 1)", (api, COPY_BYTES))
        elif not replayed:
            _, _, grid, block, _, shared = KERNELS[one.kernel]
            database.execute("insert into rocpd_kernelapi values (?, '0x0', ?, ?, ?, ?, ?, ?, ?, 0, ?)", (
                api, *grid, *block, shared, string(text),
            ))  # fmt: skip
    for at, clock in enumerate((132, 1780, 2100)):
        database.execute("insert into rocpd_monitor (deviceType, deviceId, monitorType, start, end, value) values "
                         "('gpu', 2, 'sclk', ?, ?, ?)", (BOOT + at * 150_000, BOOT + (at + 1) * 150_000, str(clock)))
    _close(database)


def _empty(path: Path, script: str) -> sqlite3.Connection:
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    database.execute("pragma page_size = 1024")
    database.executescript(script)
    return database


def _close(database: sqlite3.Connection) -> None:
    database.commit()
    database.execute("vacuum")
    database.close()


def rocprof_rows() -> list[dict[str, Any]]:
    """Rows of rocprof v1's results, columns in its order."""
    return [
        {
            "Index": at, "KernelName": f"{KERNELS[one.kernel][0]} [clone .kd]", "gpu-id": 0, "queue-id": 0,
            "queue-index": at, "pid": PID, "tid": TID, "grd": KERNELS[one.kernel][2][0], "wgr": 256,
            "lds": KERNELS[one.kernel][5], "scr": 0, "vgpr": KERNELS[one.kernel][4], "sgpr": 32, "fbar": 11584,
            "sig": "0x0", "obj": "0x7f9346387880", "DispatchNs": one.start - 2_000, "BeginNs": one.start,
            "EndNs": one.end, "CompleteNs": one.end + 1_000, "DurationNs": one.end - one.start,
        }
        for at, one in enumerate(one for one in run()[0] if one.kernel >= 0)
    ]  # fmt: skip


def workload() -> dict[str, str]:
    """The files of a rocprofiler-compute folder."""
    times = [
        {
            "Dispatch_ID": at, "Kernel_Name": KERNELS[one.kernel][0], "GPU_ID": 2, "queue-id": 0, "queue-index": at,
            "pid": PID, "tid": TID, "Grid_Size": KERNELS[one.kernel][2][0], "Workgroup_Size": 256,
            "LDS_Per_Workgroup": KERNELS[one.kernel][5], "Scratch_Per_Workitem": 0, "Arch_VGPR": KERNELS[one.kernel][4],
            "Accum_VGPR": 0, "SGPR": 32, "wave_size": 64, "Start_Timestamp": one.start, "End_Timestamp": one.end,
        }
        for at, one in enumerate(one for one in run()[0] if one.kernel >= 0)
    ]  # fmt: skip
    counted = []
    for row in times:
        time = row["End_Timestamp"] - row["Start_Timestamp"]
        matrix = row["Kernel_Name"].startswith("Cijk")
        counted.append({
            **{name: value for name, value in row.items() if not name.endswith("_Timestamp")},
            "SQ_WAVES": 1024.0, "GRBM_GUI_ACTIVE": float(time * 2),
            "SQ_VALU_MFMA_BUSY_CYCLES": float(time * 2 * 104 * 4) * 0.6 if matrix else 0.0,
            "TCC_HIT[0]": 5.0, "TCC_HIT[1]": 7.0,
            "TCC_EA_RDREQ_sum": time * 10.0, "TCC_EA_RDREQ_32B_sum": 0.0, "TCC_EA_RDREQ_DRAM_sum": time * 10.0,
            "TCC_EA_WRREQ_sum": time * 5.0, "TCC_EA_WRREQ_64B_sum": time * 5.0, "TCC_EA_WRREQ_DRAM_sum": time * 2.5,
            "Start_Timestamp": row["Start_Timestamp"], "End_Timestamp": row["End_Timestamp"],
        })  # fmt: skip
    system = [{
        "workload_name": "made_up", "command": "./train --token hunter2-never-shown", "hostname": "made-up",
        "gpu_model": "MI200", "gpu_arch": "gfx90a", "cu_per_gpu": 104, "simd_per_cu": 4, "hbm_bw": 1638.4, "num_xcd": 1,
    }]  # fmt: skip
    return {
        "rocprofiler_compute/pmc_perf.csv": table(counted, csv.QUOTE_MINIMAL),
        "rocprofiler_compute/timestamps.csv": table(times, csv.QUOTE_MINIMAL),
        "rocprofiler_compute/sysinfo.csv": table(system, csv.QUOTE_MINIMAL),
    }


def texts() -> dict[str, str]:
    """The text samples by name."""
    rows = rocprof_rows()
    with_counter = [{**row, "SQ_WAVES": 1024.0} for row in rows]
    bare = table(rows, csv.QUOTE_MINIMAL).split("\n", 1)[1]
    return {
        **csv_set(), **workload(), "rocprofv3_results.json": document(), "rocprof_results.csv": table(with_counter),
        "rocprof_bare.csv": bare,
    }


DATABASES = {
    "rocpd_results.db": lambda path: rocpd(path, UUID), "rocpd_plain.db": lambda path: rocpd(path, ""), "rocm.rpd": rpd,
}
"""The database samples by name, each with the function that writes it to a path."""


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, text in texts().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for name, write in DATABASES.items():
        write(folder / name)
