"""Widgets: what is drawn, without knowing where it comes from."""
