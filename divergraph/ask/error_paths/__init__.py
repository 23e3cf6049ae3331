"""The paths an error takes: their order, their gains, and how they are folded."""
