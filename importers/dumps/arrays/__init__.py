"""Dump files that hold plain arrays: npy, npz, PyTorch, tfdbg, Polygraphy."""
