"""Opens the user's input as tables: format detection, the ingest process, the cache."""
