"""What the rules look at: figures of the whole recording, each taken once from the account that owns it."""
