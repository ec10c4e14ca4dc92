"""Names of the files that are read with ``kernel_details.csv``."""

BESIDE = ("trace_view.json", "step_trace_time.csv", "memory_record.csv", "operator_memory.csv", "communication.json",
          "op_statistic.csv")
RANK = ("profiler_info_*.json", "profiler_info.json")
"""Patterns for the file with the rank, in the parent folder; the better one first."""
