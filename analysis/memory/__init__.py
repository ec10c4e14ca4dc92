"""What held a device's memory: peaks, who asked for it, segments, and what did not fit."""
