"""Rules about work that is known from shapes: what runs far below its peak, and what another way would win at most."""
