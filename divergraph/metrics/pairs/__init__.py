"""Tensor pairs measured: one, many, small ones together, large ones in parts."""
