"""Graphs as numpy arrays and all long traversals over them, with the same answers on every
store."""
