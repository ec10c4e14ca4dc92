"""What a recording holds beside kernels and operators: ranges somebody marked, host calls, copies."""
