"""Reducing a job: the plan, one recording, and the worker processes here or on a cluster."""
