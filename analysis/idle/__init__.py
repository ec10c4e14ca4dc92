"""Why each device waited: the time between its first and last activity in which it ran nothing, by cause."""
