"""Graphs of MindSpore: what its compiler leaves, what it exports, and their text form."""
