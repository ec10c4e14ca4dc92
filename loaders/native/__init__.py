"""Functions of a loader as machine code, compiled when the package is built and loaded without what compiled it.

A loader writes them for numba in modules of its own, with the decorators of ``jit`` and the operations of ``simd``,
gives their types in one that nothing else imports, and says in a ``program.Program`` where all that is. Only the
process that compiles (``build``, ``emit``, ``link``) imports numba, which takes longer than reading most traces.
"""
