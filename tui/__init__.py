"""The terminal user interface; it reads through :mod:`divergraph.ask` only."""
