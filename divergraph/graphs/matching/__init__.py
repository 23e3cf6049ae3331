"""Find counterparts for device tensors that neither attributes nor names identify.

By values, by the same values in another order, by re-running original ops on the device's own
inputs, by structure; each match with its rule and confidence.
"""

from divergraph.graphs.matching.match import MatchSources, match_more
from divergraph.graphs.matching.pins import NO_PINS, Pins, read_pins

__all__ = ["NO_PINS", "MatchSources", "Pins", "match_more", "read_pins"]
