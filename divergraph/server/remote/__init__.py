"""The store itself, for commands and the terminal UI on other machines."""
