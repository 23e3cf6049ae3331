"""Tensor files in folders without a layout anybody wrote down."""
