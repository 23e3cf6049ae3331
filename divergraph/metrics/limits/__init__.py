"""What may be limited, the built-in limits, the rules of a file and how they combine."""
