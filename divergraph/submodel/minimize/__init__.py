"""Shrink a failing model to the smallest part of it that still fails."""
