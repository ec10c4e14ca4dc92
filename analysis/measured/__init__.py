"""Metrics that a profiler measured per launch, section by section, and the findings of its own rules."""
