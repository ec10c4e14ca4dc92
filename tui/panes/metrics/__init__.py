"""Metrics: the canvas of plots, and the pane that reads and exports the counters."""
