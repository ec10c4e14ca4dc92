"""A job's ranks reduced to sums that a thousand of them fit in, each without looking at the others."""
