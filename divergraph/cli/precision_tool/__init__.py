"""precision_tool as its users spell it: commands, shell, runners of training scripts."""
