"""Reads dumped tensors: finds the folder, indexes its files by op, reads arrays."""
