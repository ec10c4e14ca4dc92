"""The verdict as sentences, columns and groups of rows."""
