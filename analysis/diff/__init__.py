"""What changed between two runs, beyond chance, and why.

``prepare`` makes two runs comparable, ``stats`` says how far something moved and how significant that is, ``verdict``
names suspects, changed resources and what they explain, ``present`` says it. Runs without cycles, finished comparisons
and repeated runs have a file each here.
"""
