"""Holding device tensors against golden ones: metrics, thresholds and the CSV report."""
