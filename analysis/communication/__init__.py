"""The cost of communication between ranks."""
