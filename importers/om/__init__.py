"""Ascend offline models (``.om``): the graph they run and the weights they hold."""
