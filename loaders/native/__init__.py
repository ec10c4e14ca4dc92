"""Functions of a loader as machine code that is compiled once per machine and loaded without what compiled it.

A loader writes them for numba in modules of its own, with the decorators of ``jit`` and the operations of ``simd``,
gives their types in one that nothing else imports, and says in a ``kept.Program`` where all that is. Only the process
that compiles (``emit``, ``link``) imports numba, which takes longer than reading most traces; a load runs what that
process has kept, or does without while there is nothing (``kept``, ``native``).
"""
