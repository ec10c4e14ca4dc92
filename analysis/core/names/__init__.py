"""Names of kernels and operators as a person reads them: demangled, shortened by meaning, told apart in a table."""
