"""Reduces each rank of a job, without looking at the others, to sums small enough for a thousand ranks."""
