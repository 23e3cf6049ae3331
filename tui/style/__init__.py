"""What every screen draws with: marks, colours, numbers as text."""
