"""Rows of ops that read or write by index: slices, segments, diagonals, sparse updates."""
