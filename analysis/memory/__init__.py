"""Memory of devices: when most was allocated, what held it, and whether what was free could have been used."""
