"""The panels of rocprofiler-compute, from the counters of a dispatch: speed of light, instruction mix, caches.

Formulas and names are those of the tool's analysis configurations for CDNA (``0200_system-speed-of-light.yaml``,
``1000_compute-unit-instruction-mix.yaml``, ``1600_L1_cache.yaml``, ``1700_L2_cache.yaml``, MIT licence), with times in
ns. A formula is used if all of its counters and limits are available; a division by 0 gives no value. Instruction mix
counts are per wavefront. Besides the panels, every counter is listed as recorded, in the section of its hardware block.
Counters recorded per L2 channel are reduced to their mean, standard deviation, minimum and maximum over the channels,
as the tool does (``1800_L2_cache_per_channel.yaml``).
"""

from __future__ import annotations

import re

import polars as pl

from ..recording.recording import counter_section

SPEED, MIX = "System Speed-of-Light", "Instruction Mix, per wavefront"
L1, L2, FABRIC = "Vector L1 Data Cache", "L2 Cache", "L2-Fabric"
CHANNELS = "L2 Cache (per Channel)"
_L1_MISSES = (
    "(TCP_TCC_READ_REQ_sum + TCP_TCC_WRITE_REQ_sum + TCP_TCC_ATOMIC_WITH_RET_REQ_sum"
    " + TCP_TCC_ATOMIC_WITHOUT_RET_REQ_sum)"
)
_ISSUED = ("(SQ_INSTS_VALU + SQ_INSTS_VMEM + SQ_INSTS_SALU + SQ_INSTS_SMEM + SQ_INSTS_GDS + SQ_INSTS_BRANCH"
           " + SQ_INSTS_SENDMSG + SQ_INSTS_VSKIPPED)")
_VALU_FLOPS = " + ".join(
    f"SQ_INSTS_VALU_ADD_{of} + SQ_INSTS_VALU_MUL_{of} + SQ_INSTS_VALU_TRANS_{of} + 2 * SQ_INSTS_VALU_FMA_{of}"
    for of in ("F16", "F32", "F64")
)


def _mix(*metrics: tuple[str, str]) -> tuple[tuple[str, str, str, str], ...]:
    return tuple((MIX, name, "", f"{counter} / SQ_WAVES") for name, counter in metrics)


PANELS: tuple[tuple[str, str, str, str], ...] = (
    (SPEED, "VALU FLOPs", "FLOP/s", f"64e9 * ({_VALU_FLOPS}) / time"),
    (SPEED, "VALU FLOPs, of peak", "%", f"100 * 64e9 * ({_VALU_FLOPS}) / time / (128e6 * sclk * cu)"),
    (SPEED, "VALU IOPs", "OP/s", "64e9 * (SQ_INSTS_VALU_INT32 + SQ_INSTS_VALU_INT64) / time"),
    *((SPEED, f"MFMA FLOPs ({of})", "FLOP/s", f"512e9 * SQ_INSTS_VALU_MFMA_MOPS_{of} / time")
      for of in ("BF16", "F16", "F32", "F64")),
    (SPEED, "MFMA IOPs (Int8)", "OP/s", "512e9 * SQ_INSTS_VALU_MFMA_MOPS_I8 / time"),
    (SPEED, "SALU Util", "%", "100 * SQ_ACTIVE_INST_SCA / (active * cu)"),
    (SPEED, "VALU Util", "%", "100 * SQ_ACTIVE_INST_VALU / (active * cu)"),
    (SPEED, "MFMA Util", "%", "100 * SQ_VALU_MFMA_BUSY_CYCLES / (active * cu * simd)"),
    (SPEED, "VALU Active Threads/Wave", "threads", "SQ_THREAD_CYCLES_VALU / SQ_ACTIVE_INST_VALU"),
    (SPEED, "IPC - Issue", "instr/cycle", f"{_ISSUED} / SQ_ACTIVE_INST_ANY"),
    (SPEED, "LDS BW", "B/s", "4e9 * lds_banks * (SQ_LDS_IDX_ACTIVE - SQ_LDS_BANK_CONFLICT) / time"),
    (SPEED, "LDS Bank Conflict", "conflicts/access",
     "SQ_LDS_BANK_CONFLICT / (SQ_LDS_IDX_ACTIVE - SQ_LDS_BANK_CONFLICT)"),
    (SPEED, "Instr Cache Hit Rate", "%", "100 * SQC_ICACHE_HITS / (SQC_ICACHE_HITS + SQC_ICACHE_MISSES)"),
    (SPEED, "Instr Cache BW", "B/s", "64e9 * SQC_ICACHE_REQ / time"),
    (SPEED, "Scalar L1D Cache Hit Rate", "%", "100 * SQC_DCACHE_HITS / (SQC_DCACHE_HITS + SQC_DCACHE_MISSES)"),
    (SPEED, "Scalar L1D Cache BW", "B/s", "64e9 * SQC_DCACHE_REQ / time"),
    (SPEED, "Vector L1D Cache Hit Rate", "%", f"100 - 100 * {_L1_MISSES} / TCP_TOTAL_CACHE_ACCESSES_sum"),
    (SPEED, "L2 Cache Hit Rate", "%", "100 * TCC_HIT_sum / (TCC_HIT_sum + TCC_MISS_sum)"),
    (SPEED, "L2-Fabric Read BW", "B/s", "1e9 * bytes_read / time"),
    (SPEED, "L2-Fabric Write BW", "B/s", "1e9 * bytes_written / time"),
    (SPEED, "HBM BW, of peak", "%", "100 * bytes_hbm / (time * hbm_bw)"),
    *_mix(("VALU", "SQ_INSTS_VALU"), ("MFMA", "SQ_INSTS_MFMA"), ("VMEM", "SQ_INSTS_VMEM"), ("Flat", "SQ_INSTS_FLAT"),
          ("LDS", "SQ_INSTS_LDS"), ("SALU", "SQ_INSTS_SALU"), ("SMEM", "SQ_INSTS_SMEM"),
          ("Branch", "SQ_INSTS_BRANCH"), ("GDS", "SQ_INSTS_GDS"),
          *((f"{of}-{what.title()}", f"SQ_INSTS_VALU_{what}_{of}") for of in ("F16", "F32", "F64")
            for what in ("ADD", "MUL", "FMA", "TRANS")),
          ("INT-32", "SQ_INSTS_VALU_INT32"), ("INT-64", "SQ_INSTS_VALU_INT64"), ("Conversion", "SQ_INSTS_VALU_CVT"),
          ("Buffer Read", "TA_BUFFER_READ_WAVEFRONTS_sum"), ("Buffer Write", "TA_BUFFER_WRITE_WAVEFRONTS_sum"),
          ("Buffer Atomic", "TA_BUFFER_ATOMIC_WAVEFRONTS_sum"), ("Flat Read", "TA_FLAT_READ_WAVEFRONTS_sum"),
          ("Flat Write", "TA_FLAT_WRITE_WAVEFRONTS_sum"), ("Flat Atomic", "TA_FLAT_ATOMIC_WAVEFRONTS_sum")),
    (L1, "Buffer Coalescing", "%", "1600 * TA_TOTAL_WAVEFRONTS_sum / TCP_TOTAL_ACCESSES_sum"),
    (L1, "Cache Util", "%", "100 * TCP_GATE_EN2_sum / TCP_GATE_EN1_sum"),
    *((L1, name, "%", f"100 * TCP_{counter}_sum / TCP_GATE_EN1_sum") for name, counter in (
        ("Stalled on L2 Data", "PENDING_STALL_CYCLES"), ("Stalled on L2 Req", "TCR_TCP_STALL_CYCLES"),
        ("Tag RAM Stall (Read)", "READ_TAGCONFLICT_STALL_CYCLES"),
        ("Tag RAM Stall (Write)", "WRITE_TAGCONFLICT_STALL_CYCLES"),
        ("Tag RAM Stall (Atomic)", "ATOMIC_TAGCONFLICT_STALL_CYCLES"))),
    (L1, "L1 Access Latency", "cycles", "TCP_TCP_LATENCY_sum / TCP_TA_TCP_STATE_READ_sum"),
    (L1, "L1-L2 Read Latency", "cycles",
     "TCP_TCC_READ_REQ_LATENCY_sum / (TCP_TCC_READ_REQ_sum + TCP_TCC_ATOMIC_WITH_RET_REQ_sum)"),
    (L1, "L1-L2 Write Latency", "cycles",
     "TCP_TCC_WRITE_REQ_LATENCY_sum / (TCP_TCC_WRITE_REQ_sum + TCP_TCC_ATOMIC_WITHOUT_RET_REQ_sum)"),
    (L2, "L2 Util", "%", "100 * TCC_BUSY_sum / (channels * active)"),
    (FABRIC, "Read Latency", "cycles", "TCC_EA_RDREQ_LEVEL_sum / TCC_EA_RDREQ_sum"),
    (FABRIC, "Write Latency", "cycles", "TCC_EA_WRREQ_LEVEL_sum / TCC_EA_WRREQ_sum"),
    (FABRIC, "Atomic Latency", "cycles", "TCC_EA_ATOMIC_LEVEL_sum / TCC_EA_ATOMIC_sum"),
    *((FABRIC, f"{name} Stall", "%", f"100 * (TCC_EA_{of}_IO_CREDIT_STALL_sum + TCC_EA_{of}_GMI_CREDIT_STALL_sum"
       f" + TCC_EA_{of}_DRAM_CREDIT_STALL_sum) / TCC_BUSY_sum")
      for name, of in (("Read", "RDREQ"), ("Write", "WRREQ"))),
)
"""Section, metric, unit, and formula over counters (any case), ``time`` (ns), ``active`` (GRBM_GUI_ACTIVE per die),
``bytes_*`` and the device's ``cu simd sclk (MHz) hbm_bw (GB/s) channels lds_banks``."""
LEVELS: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "SQ_LEVEL_WAVES.csv": (
        (SPEED, "Wave Occupancy", "waves", "SQ_ACCUM_PREV_HIRES / active"),
        (SPEED, "Wave Occupancy, of peak", "%", "100 * SQ_ACCUM_PREV_HIRES / (active * cu * max_waves)"),
    ),
    "SQ_IFETCH_LEVEL.csv": ((SPEED, "Instr Fetch Latency", "cycles", "SQ_ACCUM_PREV_HIRES / SQ_IFETCH"),),
}
"""Level file → formulas over its counters."""
_ORDER = ("SQ", "SQC", "TA", "TD", "TCP", "TCC", "SPI", "CPC", "CPF", "GRBM")
_CHANNEL = re.compile(r"(\w+)\[\d+\]")


def panels(
    counters: pl.DataFrame, formulas: tuple[tuple[str, str, str, str], ...] = PANELS
) -> pl.DataFrame:
    """The panels of each dispatch: ``launch section metric value unit``; ``counters`` has lower-case column names."""
    result = []
    for section, metric, unit, formula in formulas:
        expr = pl.sql_expr(formula.lower())
        if set(expr.meta.root_names()) <= set(counters.columns):
            value = counters.select("launch", value=expr.cast(pl.Float64).fill_nan(None))
            result.append(value.filter(pl.col("value").is_finite()).with_columns(
                section=pl.lit(section), metric=pl.lit(metric), unit=pl.lit(unit or None, pl.String)))
    return pl.concat(result) if result else _NOTHING


def by_block(counters: pl.DataFrame, names: dict[str, str]) -> pl.DataFrame:
    """Every counter of each dispatch as recorded, except per-channel ones; ``names`` maps columns to recorded names."""
    result = [
        counters.select(
            "launch", value=column, section=pl.lit(counter_section(name)), metric=pl.lit(name),
            unit=pl.lit(None, pl.String),
        ).drop_nulls("value")
        for column, name in sorted(names.items(), key=lambda one: (_place(one[1]), one[1]))
        if not _CHANNEL.fullmatch(name)
    ]
    return pl.concat(result) if result else _NOTHING


def by_channel(counters: pl.DataFrame, names: dict[str, str]) -> tuple[pl.DataFrame, int]:
    """Mean, standard deviation, minimum and maximum over the channels of each per-channel counter; and the number of
    columns these were."""
    groups: dict[str, list[str]] = {}
    for column, name in names.items():
        if match := _CHANNEL.fullmatch(name):
            groups.setdefault(match[1], []).append(column)
    result = []
    for counter, columns in sorted(groups.items()):
        channels = pl.concat_list(pl.col(columns).cast(pl.Float64)).list
        for what, value in (("mean", channels.mean()), ("std dev", channels.std(0)), ("min", channels.min()),
                            ("max", channels.max())):
            result.append(counters.select(
                "launch", value=value, section=pl.lit(CHANNELS),
                metric=pl.lit(f"{counter}, {what} of {len(columns)}"), unit=pl.lit(None, pl.String),
            ).drop_nulls("value"))
    return pl.concat(result) if result else _NOTHING, sum(map(len, groups.values()))


def _place(counter: str) -> int:
    block = counter.partition("_")[0]
    return _ORDER.index(block) if block in _ORDER else len(_ORDER)


_NOTHING = pl.DataFrame(schema={
    "launch": pl.UInt32, "value": pl.Float64, "section": pl.String, "metric": pl.String, "unit": pl.String})
