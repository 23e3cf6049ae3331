"""Protobuf read without its own library: text format, wire format, literals."""
