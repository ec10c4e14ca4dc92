"""``python -m warplens`` is the same as ``warplens``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
