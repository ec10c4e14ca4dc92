"""One sitting and what every screen shares of it: the session, jobs, messages, keys, settings and themes."""
