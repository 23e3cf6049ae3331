"""The user's paths made into graphs and indexed dumps, saying what was chosen and why."""
