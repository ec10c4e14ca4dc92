"""Machine code for hot loops: compiled with numba when the package is built, loaded without numba.

A package writes the functions in modules of their own, with the decorators and operations of ``jit``, and declares
their names, types and source files in a ``program.Program``. Only the compiling process (``build``, ``emit``, ``link``)
imports numba, which takes longer than reading most traces.
"""
