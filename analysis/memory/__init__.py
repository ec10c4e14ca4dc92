"""Use of device memory: peaks, the code that allocated it, segments, and failed allocations."""
