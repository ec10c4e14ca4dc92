"""Counters over time: what each read, in sum and sample by sample, and as plots."""
