"""Which strategies exist, and the best of them."""
