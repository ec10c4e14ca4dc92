"""What the two ways to decode records agree on: the room behind a text, the types of values and their sizes.

The type of a value is its code in the header of its record (https://sqlite.org/fileformat2.html, section 2.1): 1 to 6
are integers of growing width, 7 is a floating-point number, 8 and 9 are the numbers 0 and 1 without a byte; from 12 on
even codes are bytes and odd ones text, whose length the code says.
"""

from __future__ import annotations

PAD = 16
"""Bytes behind the pages, so that eight can be read where one is."""
SIZES = 0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0
"""Bytes of a value by its code, up to 11."""
NULL_CODE, REAL_CODE, ZERO_CODE, ONE_CODE, LENGTHS = 0, 7, 8, 9, 12
"""``LENGTHS`` is the first code that says a length."""
MISSING, WHOLE, REAL, TEXT, BYTES = 1, 2, 4, 8, 16
"""What the value of a row is; one bit each, so that those of a column can be added up."""
