"""State shared by every screen of one app session: the session itself, jobs, messages, keys, settings and themes."""
