"""Values of tensor pairs, read and aligned."""
