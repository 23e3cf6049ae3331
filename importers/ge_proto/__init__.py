"""Ascend graphs as the GE compiler dumps them (``ge_proto_*.txt``)."""
