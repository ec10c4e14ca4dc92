"""The details beside a list: the panel that follows the cursor, and sections of details as lines of text."""
