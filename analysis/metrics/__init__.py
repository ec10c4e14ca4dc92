"""Counters over time: samples, their summary per counter, findings and plots."""
