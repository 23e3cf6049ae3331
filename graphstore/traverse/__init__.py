"""Graphs as numpy arrays, and every long traversal over them: the same answer on every store."""
