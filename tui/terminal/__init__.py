"""What goes to the terminal itself: which cells, which pictures, and nothing it would obey."""
