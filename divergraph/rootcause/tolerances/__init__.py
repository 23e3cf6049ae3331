"""Noise floors, and what else healthy arithmetic may do."""
