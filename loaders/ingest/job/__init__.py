"""The recordings of a multi-rank job: finding their files, and a process pool to read several at once."""
