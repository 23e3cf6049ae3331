"""Runs of PyTorch and MindSpore as msprobe records them."""
