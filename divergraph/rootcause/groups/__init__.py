"""Groups: the golden ops between measured tensors, and running them."""
