"""What used a device's memory: peaks, which code allocated it, segments, and failed allocations."""
