"""Many runs of one job: what stepped, when, and by how much. ``steps`` decides what is a step."""
