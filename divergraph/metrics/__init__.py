"""Comparing device tensors with golden ones: metrics, figures and limits."""
