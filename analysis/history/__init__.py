"""Many runs of one job: which series stepped to a new level, when and by how much. ``steps`` decides what a step is."""
