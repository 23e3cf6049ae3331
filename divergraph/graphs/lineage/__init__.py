"""Find which original ops each device op stands for, and which tensors to compare."""

from divergraph.graphs.lineage.linking import Lineage, Unmatched, link_graphs

__all__ = ["Lineage", "Unmatched", "link_graphs"]
