"""Convolutions over transformed tiles, and how their errors tell them."""
