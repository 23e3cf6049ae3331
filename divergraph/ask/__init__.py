"""The questions front ends ask, with plain values as answers.

The command line, the Python API and the terminal UI call these and nothing below them, so they
cannot disagree.
"""
