"""Rules about work known from shapes: operators far below their peak, and what an alternative would save at most."""
