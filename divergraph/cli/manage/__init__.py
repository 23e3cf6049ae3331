"""Commands about stores, servers and the installation."""
