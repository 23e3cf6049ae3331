"""Commands that hold one run against others."""
