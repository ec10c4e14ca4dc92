"""Building blocks shared by all views: intervals, quantiles, call tree, launch calls, units and names."""
