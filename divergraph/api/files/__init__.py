"""Files and folders without any graph: single tensors, data folders, jobs that write them."""
