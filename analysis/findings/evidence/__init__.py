"""What the rules look at: figures of the whole recording, each taken once from where it is computed."""
