"""What ``import divergraph as dg`` gives; the command line and the terminal UI are built on it.

Each module holds one thing a user does or gets. None is loaded before it is needed.
"""
