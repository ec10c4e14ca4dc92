"""warplens, the terminal microscope for GPU runs.

Importing the package loads nothing heavy: Textual, polars and the compiled scanner are imported by the commands that
need them.
"""

__version__ = "0.1.0"
