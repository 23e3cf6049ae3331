"""The terminal user interface; reads through :mod:`divergraph.questions` only."""
