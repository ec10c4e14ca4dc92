"""The recordings of a job: which files are one rank's, and processes that work on several at once."""
