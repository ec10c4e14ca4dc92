"""Rules about how well devices work while busy."""
