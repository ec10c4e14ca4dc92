"""The evidence for the rules: figures of the recording, each taken from the one place that computes it."""
