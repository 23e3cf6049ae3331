"""The answers of the command line over HTTP: ``divergraph serve``."""
