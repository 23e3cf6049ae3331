"""The quantities that can be limited, built-in limits, rules of a file, and how rules combine."""
