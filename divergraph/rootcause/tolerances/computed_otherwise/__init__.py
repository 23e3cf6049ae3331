"""Ops that were computed in another way than their like, and have the very errors that makes."""
