"""The questions whose answer has a declared JSON: said once for the command line and the server."""
