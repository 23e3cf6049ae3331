"""What the server keeps of earlier answers."""
