"""What every question is made of: intervals, quantiles, call tree, launch calls, units and names, each said once."""
