"""Constants shared by the compiled scanner and its caller: state between calls, return codes, padding after the text.

They are in their own module so that the caller can import them without numba.
"""

from __future__ import annotations

PAD = 64  # Bytes of a buffer after the end of its text; no memory load reaches further.

(AT, ROWS, DEVICES, HOSTS, ODD, ASIDE, FLOWS, EVENTS, NAMES, COMMA, WANTED, INSTANTS, SPANS, REPAIRED,
 PLACING) = range(15)
"""Indices into the state: position; counts of this scan; size of the string table; comma seen; bytes wanted; whether
slices are read that wait for their place (not a count)."""
STATE = 15

UNKNOWN, DEVICE, HOST = range(3)
"""Route of a category: general rows, device rows, host rows."""

DONE, CLOSED, FULL, STRINGS, SYNTAX, INCOMPLETE = range(6)
"""Why a scan ended: end of text; end of list; row tables full; string table full; invalid JSON; inside an event."""

PREDICTIONS, PREDICTED_WORDS = 2048, 4
"""Slots for key predictions, and 64-bit words of text per slot. With 256 slots, keys collided and 3.2 of an event's 12
keys were mispredicted; with 2,048 it is 0.3."""
