"""What the compiled scanner and its caller agree on: the state between two calls, why a scan ends, room behind texts.

Here, because the caller must know it without importing what the code is compiled with.
"""

from __future__ import annotations

PAD = 64  # Bytes a buffer has behind the end of its text; no load reaches further.

AT, ROWS, DEVICES, HOSTS, ODD, ASIDE, FLOWS, EVENTS, NAMES, COMMA, WANTED, INSTANTS = range(12)
"""The state: position; counts since the scan began; size of the string table; comma seen; bytes wanted."""
STATE = 12

UNKNOWN, DEVICE, HOST = range(3)
"""Where events of a category go: among all others, to the rows of devices, to those of the host."""

DONE, CLOSED, FULL, STRINGS, SYNTAX, INCOMPLETE = range(6)
"""Why a scan ended: text used up; list closed; tables full; string table full; no JSON; in the middle of an event."""

PREDICTIONS, PREDICTED_WORDS = 2048, 4
"""Slots for what usually comes next, and 64-bit words of text in each. Of 256, in which keys met, 3.2 of an event's 12
keys were not the expected ones; of these 0.3 are not."""
