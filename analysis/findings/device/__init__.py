"""Rules about how well devices worked while they did."""
