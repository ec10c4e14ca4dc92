"""Protocol buffers without their library: the few fields a loader needs, read from the bytes of the wire format.

Traces in protocol buffers hold tens of millions of messages of which a loader wants a handful of fields each. Objects
for all of them would take minutes and gigabytes, so a ``Shape`` says which fields matter and a walk turns stretches of
the file into columns (``tokens``). Two walks give the same columns: ``plain`` in Python, and ``walk``, compiled once
per machine. The format: https://protobuf.dev/programming-guides/encoding.
"""
