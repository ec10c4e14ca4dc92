"""From what the user typed to tables: opening, the ingest process, the cache."""
