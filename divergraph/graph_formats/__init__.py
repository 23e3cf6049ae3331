"""Any model graph in the format of another tool."""
