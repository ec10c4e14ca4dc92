"""The idle time of each device between its first and last activity, by cause."""
