"""Each device op on its own dumped inputs: what it cannot have made, without a golden side."""
