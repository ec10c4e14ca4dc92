"""The verdict as sentences, columns and details."""
