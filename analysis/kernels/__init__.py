"""Kernels by name: where their rows come from, what bounds them, the groups behind a name."""
