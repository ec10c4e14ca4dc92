"""What stands beside a list and follows its cursor: one look at the whole run, then any row in about a millisecond."""
