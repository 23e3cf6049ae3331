"""Divergraph: where a model's error starts, how it spreads, and what still shows it."""
