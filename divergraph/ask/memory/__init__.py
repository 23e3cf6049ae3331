"""What a team said of a model: notes on its ops, and the run others are held against."""
