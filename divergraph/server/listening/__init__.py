"""How the server talks HTTP: what a client may send, and how long it may take."""
