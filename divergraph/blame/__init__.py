"""Which ops are to blame for the outputs' error, and what to keep in higher precision."""
