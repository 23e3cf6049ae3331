"""What surrounds single ops, and what logs say of them."""
