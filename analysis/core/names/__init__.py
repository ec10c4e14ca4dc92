"""Display names of kernels and operators: demangled, shortened by meaning, distinct within a run."""
