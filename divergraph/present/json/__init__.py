"""The JSON of all front ends."""
