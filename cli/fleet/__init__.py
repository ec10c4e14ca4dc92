"""Reducing a job: what there is to do, one recording, and processes here or on a cluster that do it."""
