"""Which fusion passes made ops, and whether an error is theirs."""
