"""Where a step's time goes and how well the devices were used."""
