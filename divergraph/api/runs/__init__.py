"""Runs: what they answer, and what is made of them."""
