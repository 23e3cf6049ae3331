"""What the server shows to people without a terminal: the answers of its JSON as pages."""
