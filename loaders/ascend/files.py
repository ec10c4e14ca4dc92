"""The files beside the table that are read with it."""

BESIDE = ("trace_view.json", "step_trace_time.csv", "memory_record.csv", "operator_memory.csv", "communication.json",
          "op_statistic.csv")
RANK = ("profiler_info_*.json", "profiler_info.json")
"""Patterns of the file above the folder that names the rank, the better one first."""
