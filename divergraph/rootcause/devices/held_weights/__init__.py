"""Weights that a device holds in fewer bits: by its graph, and by its outputs."""
