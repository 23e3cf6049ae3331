"""Tensor files in folders without any documented layout."""
