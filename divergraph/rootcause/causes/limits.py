"""What all rules of causes take for sure, for enough, for all and for little.

They choose words, never guilt, so none of them stands in ``calibration``; what only one rule needs
stands in its file. benchmarks/root_cause/causes_accuracy.py measures all of them together.
"""

from __future__ import annotations

SURE, LIKELY, GUESS = 0.95, 0.75, 0.5
"""How sure a cause is: it predicts what the device has, where many values leave chance no room; it
leaves more than noise, or ops behind it may disguise another one; it describes, or few values are
all there is. Measured: of 640 causes that were sure 639 were right, of 174 others 148."""
ENOUGH, FEW = 16, 8
"""With fewer values what has no parameters may fit by chance; so few may be anything."""
ALL = 0.95
"""The share of the error's energy, or of elements, that a part must have to be the explanation."""
PART = 0.25
"""The share of slices that are few, so that the others are right."""
LEFT = 0.1
"""The share of the error's norm that an explanation may leave."""
CLOSE = 0.02
"""Shares that are no further apart are the same."""
LUCK = 0.05
"""How many guesses that fit by chance are few."""
NO_GAIN = 0.01
"""A gain below which nothing of what is expected is left."""
STEP = 1 / 64
"""By which share of its size a number is moved to see how the output moves with it."""
ROUNDS = 8
"""Steps from there to the number the device has. Bounds cost: each runs the group twice."""
POINTS = 20_000
"""Elements that functions and grids are looked for in. Bounds cost."""
