"""The timeline: one lane per stream and thread, exact at any zoom."""
