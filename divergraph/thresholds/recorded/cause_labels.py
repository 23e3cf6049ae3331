"""The labels of causes that a recorded run shows without any op run again."""

from __future__ import annotations

ARGUMENT, WEIGHT, INPUT = "argument_differs", "weight_differs", "input_differs"
SCALED = "input_scaled"
DATA, UNEQUAL = "data_differs", "other_values_of_equal_ones"
LAW = "law_broken"
REDUCTION = "reduction_differs"
SHAPE = "shape_differs"
GRADIENT = "gradient_differs"
MISSING, EXTRA, MOVED = "call_missing", "call_extra", "call_moved"
