"""PyTorch models written by ``torch.export.save``; PyTorch is not needed."""
