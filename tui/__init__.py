"""The terminal user interface; reads through :mod:`divergraph.ask` only."""
