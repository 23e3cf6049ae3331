"""Ops as columns: arrays of states, figures and codes, a Python value only for what is shown."""
