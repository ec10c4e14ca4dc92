"""BLAKE2b. ``hashlib`` has it too, and loads all of OpenSSL with it, which takes longer than to scan a megabyte."""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # an interpreter that was built without hashes of its own
    from hashlib import blake2b

__all__ = ["blake2b"]
