"""Protocol buffers without their library: the few fields a loader needs, read from the bytes of the wire format.

Such traces hold tens of millions of messages; a loader needs a handful of fields of each. One object per message
would take minutes and gigabytes, so a ``Shape`` declares the needed fields, and a walk turns stretches of the file into
columns (``tokens``). The walk exists in Python and compiled, with the same results; it is compiled once per machine.
The format: https://protobuf.dev/programming-guides/encoding.
"""
