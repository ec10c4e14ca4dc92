"""What changed between two runs, beyond chance, and why.

``prepare`` makes two runs comparable, ``stats`` gives the size and significance of a change, ``verdict`` names the
suspects, the changed resources and what they explain, ``present`` words the result. Runs without cycles, finished
comparisons and repeated runs each have a file here.
"""
