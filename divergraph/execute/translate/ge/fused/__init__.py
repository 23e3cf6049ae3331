"""What was fused into one kernel: by its name, its tail, its elementwise ops."""
