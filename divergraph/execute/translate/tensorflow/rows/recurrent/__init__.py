"""Cells of recurrent nets as one op each, and their gradients."""
