"""What a profiler measured of each launch, section by section, and what its own rules say of it."""
