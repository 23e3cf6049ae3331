"""The rules by which jobs split tensors, a file each."""
