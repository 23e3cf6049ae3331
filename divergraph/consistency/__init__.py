"""Checks of one side's dump that need no golden side."""
