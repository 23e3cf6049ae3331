"""What the measured tensors say by thresholds: states, origins, verdict."""
