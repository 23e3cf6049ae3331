"""What the measured tensors say about the ops: states, origins, verdict."""
