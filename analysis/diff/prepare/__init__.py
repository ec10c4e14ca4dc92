"""Prepares two runs for comparison: matched, stratified, sampled."""
