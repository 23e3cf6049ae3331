"""Every number that decides a verdict, with its reason and what it was measured on.

A verdict is a suspicion held against two limits, and a suspicion is an error over a noise
floor. The numbers here make the floors, the limits and the hypotheses about the device. What
only bounds cost (samples taken, blocks, bytes) stands where it is used, and so do the numbers
by which a cause is told: they choose words, not guilt. Facts of number formats, such as the
largest float16, belong to the arithmetics in ``devices``.

"The healthy devices" are the runs without a fault of ``benchmarks/root_cause/run.py``: thirteen
ONNX models on devices that round every tensor, quantise, or are ONNX Runtime's own float16 and
QDQ conversions; "the faults" are the eighteen kinds injected there. The tables in
``benchmarks/README.md`` were made with all numbers as they stand. *Not measured* says that no
record tells how the number itself was found, and that its reason is the one beside it. *Swept*
says what half and twice of it change of 22 cases, 10 of them healthy, of one model on five
devices (``benchmarks/root_cause/sweep.py --models seizure``): which op is first, whether it is
called guilty, or only who is suspect besides. A test fails if a number is ten times larger or ten
times smaller (``tests/rootcause/numbers``).

Read these as attributes of the module when they are needed (``calibration.SUSPECT``), never
imported by name or bound as a default: tests and the mutation check change them in place.
"""

from __future__ import annotations

from graphstore import model

# Limits of suspicion, of roles, and of errors that matter at all

SUSPECT = model.SUSPECT
"""Suspicion above which an op is suspect. Measured: healthy ops have a median of 1.0 to 1.2 and
stay below 5 on ONNX Runtime's float16 runs (docs/explanation/root-cause.md). Swept: half of it
changes only who is suspect besides in 5 of 22 cases; twice is refused, as the limits would be out
of order."""

GUILTY = model.GUILTY
"""Suspicion above which an op is guilty, an origin. Measured: few healthy ops pass it (table of
healthy runs); a gain of 1.003 in float16 does (a test). Swept: half of it is refused, as the limits
would be out of order; twice changes whether 3 of 22 cases are called guilty."""

AMPLIFIES = 1.5
"""Propagated error over that of the inputs from which an op amplifies; below the inverse of it it
attenuates. Not measured: half as much again is what a reader would call more."""

HEALTHY_SHARE = 0.5
"""The share of the suspect limit up to which an error is what healthy ops have: so far ops in
integers agree with their graph, and gains inside of groups are not looked for. Not measured. Swept:
half and twice of it change none of 3 cases."""

MOST_SUSPICION = 1e9
"""The largest finite suspicion. An error as large as the tensor itself has 4e7 in float32, the
finest arithmetic there is; more says nothing more, and can still be read. Counted, not measured.
Swept: half and twice of it change none of 12 cases."""

FAR_BELOW = 1e-3
"""Share of both the inputs' error and the least limit below which an error starts nothing: a
thousandth of what was there before cannot be seen behind it. Not measured. Swept: half and twice of
it change none of 12 cases."""

LEAST_LIMIT = 0.01
"""The smallest of the built-in limits of relative errors, past which a tensor is shown: what is
less of an output, such as subnormal numbers set to zero, is no fault. Not measured: it follows
``metrics/limits``. Swept: half and twice of it change none of 12 cases."""

SAME_CONSTANT = 0.01
"""Relative error up to which a constant of the device is golden's, rounded, and a reference stands
for a constant to which scores were added: bfloat16 leaves 0.004.
Not measured: compilers that change a constant change it by more. Swept: half and twice of it change
none of 22 cases."""

GUILTY_EVERYWHERE = 6
"""So many guilty tensors, and a third of all, say that the device is misunderstood rather than
broken. Not measured: a dump held against the graph of another model is a test. Swept: half and
twice of it change none of 22 cases."""

SHARE_EVERYWHERE = 1 / 3
"""The share that goes with GUILTY_EVERYWHERE: faults are in few ops. Not measured. Swept: half and
twice of it change none of 22 cases."""

# The noise floor

LEAST_UNITS_16_BIT = 0.3
"""The least floor in rounding units. Measured: rounding at random leaves 0.29 to 0.58 units; one
value can be exact by luck. Swept: half of it changes none of 11 cases; twice changes whether 3 of
11 cases are called guilty."""

LEAST_UNITS_32_BIT = 4.0
"""The least floor in float32, whose dumps show sums in another order and never one rounding. Not
measured apart: the healthy devices ort-ext, ort-all and fp32x were judged with it. Swept: half and
twice of it change none of 12 cases."""

CHANCE_OF_ONE_VALUE = 1.5
"""A tensor of n values has a least floor larger by this over sqrt(n): what one value is off by may
be several times the usual by chance. Not measured. Swept: half and twice of it change none of 22
cases."""

FP32_UNITS = 8.0
"""How far each input, weight and output is disturbed in float32, in rounding units: what sums of
some hundred terms in another order leave. Not measured apart: as LEAST_UNITS_32_BIT. Swept: half
and twice of it change none of 12 cases."""

WITHOUT_EMULATION = 8.0
"""How much wider than a chain of roundings the floor is where the emulation cannot run. Not
measured: it only happens where an op refuses inputs that were rounded. Swept: no case asks for
it."""

NEXT_TO_INFINITY = 1e38
"""Above this size any noise makes infinity, so an infinite emulation is no large floor. Not
measured: a third of the largest float32. Swept: no case asks for it."""

HIDDEN_BODIES = 0.05
"""The floor of an If, Loop or Scan in which a device may quantise with scales nobody sees. Not
measured: several times INTEGER_KERNEL, as a body has several kernels. Swept: no case asks for
it."""

INTEGER_KERNEL = 0.02
"""The floor of one kernel in integers whose scales are not told: what 8 bits for inputs and weights
usually cost. Not measured: two operands in steps of 1/127 of their largest value. Swept: no case
asks for it."""

RECURRENT_KERNEL = 0.08
"""The floor of a recurrent layer in integers with such scales: each turn takes new scales of the
state, with the rounding of the turns before. Measured: 0.077 of an LSTM of 18 turns that OpenVINO
runs in 8 bits (ONNX Runtime, of the same file, has the same within 0.034); with 0.05 its worst
parts would be suspect. Swept: no other case asks for it."""

DYNAMIC_ALIKE = 0.75
"""The least share of values much nearer to the emulation of a kernel that quantises dynamically
than to the exact product, and of those that are the very ones of products in an operand format.
Measured on LiteRT: 1.0 with the right scales, up to 0.62 with wrong ones; on nine formats of a GPU:
0.92 to 1.0 where a format is exact, 0.33 to 0.59 where its ties fall otherwise."""

DIVISION_UNITS = 2.0
"""How far a weight over its scale may be off, in units of float32 of the whole range: some devices
multiply by the inverse, some divide by the range. Measured: four weights next to a tie on two
models that OpenVINO runs in 8 bits, off by 0.05 to 0.8 such units. Swept: half and twice of it
change none of 7 cases."""

# Tolerances: masks

MASK_VALUES = 4
"""A constant with more different values beyond float16 is data, no mask. Not measured: exported
attention has one or two (-1e9, -3.4e38). Swept: half and twice of it change none of 11 cases."""

MASK_SCALED = 16.0
"""By more nobody scales scores that are masked already: temperatures, and roots of the sizes of
heads, which are 8 to 16. Not measured beyond those sizes. Swept: no case asks for it."""

MASK_LEAST = 9e3
"""The least size of a device's number in place of infinity: converters put 10000 for what float16
does not hold, which is 9984 in bfloat16. Counted, not measured. Swept: half and twice of it change
none of 20 cases."""

# Tolerances: what healthy devices do now and then

ROUNDED_DRAWS = 8
"""How often chance is drawn for groups of several ops and for few values: a gate hangs on a value
next to zero, or roundings cancel. Not measured: a chance of one half is missed once in 256. Swept:
neither half nor twice of it changes the one case that asks for it."""

FEW_VALUES = 64
"""Tensors of fewer values are drawn several times: their roundings may cancel by luck. Not
measured. Swept: half and twice of it change none of 12 cases."""

CONVERTED_LEAST = 1e-7
"""Converters to float16 raise smaller constants to this. Source: onnxconverter-common, whose
default ``min_positive_val`` it is. Swept: half and twice of it change none of 9 cases."""

# Tolerances: errors that a norm hides

PART_LEAST_VALUES = 32
"""Tensors of fewer values have no parts. Not measured: below, a part is a handful of values. Swept:
half and twice of it change none of 22 cases."""

PART_BITS = 3
"""Elements within a factor of 2 to this power are of like size. Not measured: float16 loses its
last digits over a factor of 2^11, so it must be far fewer. Swept: half and twice of it change none
of 16 cases."""

PART_VALUES = 24
"""Fewer elements of like size are joined to the next part. Not measured. Swept: half and twice of
it change none of 16 cases."""

PART_UNSURE = 4.0
"""How much more of its noise a part may be off than the whole. Measured: rounding at random stays
below half the suspect limit with it (a property test). Swept: half and twice of it change none of
16 cases."""

SLICES_LEAST = 8
"""Axes of fewer slices are not judged by slice: the spread of so few tells nothing. Counted, not
measured."""

SLICE_LEAST_VALUES = 4
"""Slices of fewer values vary so much by chance that only what all the others share tells one from
them. Counted, not measured."""

SLICES_ALIKE = 0.25
"""The spread of the logarithms of error over noise up to which single values are as the imitation
has them. Measured: rounding that is imitated leaves 0.05, rounding at random 1.0 and more."""

SLICES_REPEATED = 0.75
"""The share of slices that must have errors as the imitation has them, up to SLICES_ALIKE of their
size, before one that has others departs from it. Measured: next to a fault in LiteRT's and
OpenVINO's 8 bits all others repeat them to 1e-3; so they do in an op by itself on a device that
rounds to 16 bits, one of whose channels is 5 % off."""

PEAK_VALUES = 3
"""So many elements must be that far off: fewer may be by chance. Not measured apart from
PEAK_UNSURE. Swept: half and twice of it change none of 22 cases."""

PEAK_UNSURE = 8.0
"""How much more of their noise the worst elements may be off. Measured: as PART_UNSURE, by the same
property test. Swept: half and twice of it change none of 22 cases."""

USUAL_STEPS = 0.9
"""The quantile of non-zero noise that is called usual, where all elements have noise of one size:
few are rounded to another step. Not measured. Swept: half of it changes none of 7 cases; twice is
no quantile."""

# Tolerances: errors that are no chance, element by element or among the ops of a run

FALSE_ALARMS = 0.01
"""How likely one of all healthy ops of a run may be called wrong because what it has is no chance.
Not measured."""

STANDING_OUT_OPS = 32
"""Of fewer ops with errors the tail tells nothing. Counted, not measured."""

STANDING_OUT_PEERS = 2
"""So many others of its type must be within the limit before one that stands out is guilty.
Counted, not measured: of one alone nobody knows which of the two is as the device computes."""

LONE_SIGMA = 8.0
"""How many spreads of the logarithms of error over noise of its axis a slice must be from their
median to be alone. Measured: of 12 healthy runs of a GPU in 16 bits the furthest is at 6.1."""

LONE_RATIO = 4.0
"""How many times as far over its noise as the others such a slice must be. Measured: in those runs
at most 2.9; a channel of 2.5 % too much in bfloat16 is at 4.8 and more."""

# Tolerances: bounds of exact ops

OUTSIDE_CHANCE = 1e-5
"""The chance of an element of a healthy exact op to be outside its bound, of which the square of
the distance is taken off. Measured: of 12 healthy runs of a GPU in 16 bits none of 258,000 is, and
the furthest is at 0.46 of it. With 1e-3 a channel of 2.5 % too much in bfloat16 is lost where three
in four of its values are zero."""

# Tolerances: gains

GAIN_SHARE = 0.7
"""Share of an error that must point along the output to be a gain: cos² is then one half, and
chance leaves next to nothing along it. Not measured. Swept: half of it changes none of 11 cases;
twice changes whether 1 of 11 cases are called guilty."""

GAIN_BY_CHANCE = 3.0
"""Standard deviations of what chance makes along the output. Not measured: the usual three. Swept:
half of it changes only who is suspect besides in 1 of 4 cases; twice changes none of 4 cases."""

GAIN_EMULATED = 2.0
"""How many times what the emulation is off by along the output is no gain. Not measured. Swept:
half and twice of it change none of 4 cases."""

GAIN_TRIED = 2.0**-6
"""The gain by which values inside of groups are moved to see what comes of it: far over rounding,
and small enough to be linear. Not measured. Swept: half and twice of it change none of 2 cases."""

# Hypotheses about the device

ENOUGH_OPS = 3
"""So many ops of a kind make a median that one fault does not move; of fewer each must tell, or
others are asked. Counted, not measured. Swept: half and twice of it change none of 6 cases."""

PRECISION_SHARE = 0.15
"""The share of tensors in 16 bits above which the device computes in them: mixed devices keep their
large matrix products in 16 bits, and float32 ones have at most a few tensors that fit them by
chance. Not measured. Swept: half and twice of it change none of 22 cases."""

PRECISION_VALUES = 16
"""Tensors with fewer different values say nothing of the arithmetic: whatever computed them, they
fit 16 bits. Not measured. Swept: half and twice of it change none of 22 cases."""

KEPT_LARGEST = 1e4
"""The largest constant converters to float16 leave as it is. Source: onnxconverter-common, whose
``max_finite_val`` it is. Swept: no case asks for it."""

DECLARED_TRUSTED = 0.9
"""The share of 16-bit dumps a graph must declare in 16 bits to be believed in its types. Not
measured: a graph from before the conversion declares none of them. Swept: half and twice of it
change none of 11 cases."""

OPERANDS_ALIKE = 0.3
"""The least cosine between the errors of a single op and those of the imitation: a gain has none.
Measured of sums in 16 bits: 0.8 to 1.0 of the right ones, up to 0.2 of others."""

OPERANDS_SEEN = 0.9
"""The least cosine at which the errors of a product are those of operands in 16 bits and nothing
else. Rounding one of two operands gives 0.7. Not measured apart."""

OPERANDS_REST = 0.5
"""The most of an op's errors that the right format of its operands leaves. Measured on nine formats
of a GPU in bfloat16: the right ones leave 0.03 to 0.25, formats one step beside them 0.4 to 0.8,
what has nothing to do with them 1 and more."""

MOST_LOST = 0.3
"""The largest relative error that products may have in common for an arithmetic nobody knows: four
bits cost 0.09 to 0.2 (measured on a GPU), another weight all. Not measured beyond."""

TILES_ALIKE = 0.1
"""The least cosine between the errors of a convolution and those of the same over transformed
tiles. Measured: 38 of MNN's have 0.12 to 0.65 with its own tiles, at most 0.04 with others."""

TILES_BY_CHANCE = 6.0
"""Standard deviations of the cosine of errors that have nothing to do with each other, of which
none is taken for the same. Not measured: ten kinds of tiles are tried for each of many ops."""

TILES_GROW_ALIKE = 0.9
"""The least correlation between the logarithms of errors by place in a tile. Measured: MNN's have
0.99 with its own tiles, at most 0.7 with others of a like size."""

FUNCTION_INEXACT = 2.0
"""Median of error over floor above which a type of function is not exact. Not measured: that of
healthy ops is 1.0 to 1.2."""

FUNCTION_FITS = 1.5
"""Median of error over floor up to which a size of approximation explains a type. Not measured
apart: sizes are tried in steps of two."""

FUNCTION_SMALLEST = 2e-6
"""The first relative error tried for approximated functions: some 30 units of float32, from which
an approximation is told from other roundings. Not measured."""

FUNCTION_SMALLEST_16_BIT = 2.0**-4
"""As above in 16 bits, in rounding units. Measured on tables, polynomials and formulas computed
step by step, of five functions in both types: they need an eighth of a unit to one unit."""

FUNCTION_STEPS = 6
"""How often that is doubled: to 6.4e-5 or two units of 16 bits, some hundred units of float32 or
more, as tables and polynomials have. What is further off is a fault. Not measured."""

FUNCTION_STEPS_IN_COMMON = 2
"""How often they are doubled again in 16 bits for what several groups have in common, where no
formula is alike. Measured: tinygrad adds up the polynomial of Erf in float16 and is up to 5.5 units
off in all twelve ops of a ConvNeXt."""

FORMULA_ALIKE = 0.7
"""The least median of cosines between the errors of a type of function and those of a formula that
stands for it. Measured: Gelu of MNN, by tanh, has 0.93 to 0.99."""

QUANTISED_MOST_OFF = 0.25
"""The share of ops that may be off, by faults, where the others show that ops are exact. Not
measured: injected faults are in one op."""


def healthy_limit() -> float:
    """The suspicion up to which an error is what healthy ops have. So far ops in integers agree
    with their graph, no op stands out of others, however alike these are, and the error of one
    that cannot be run may grow: normalisations of healthy devices amplify two- to threefold.
    Measured: of 50 healthy runs of OpenVINO the largest that most are far below is at 2.6, of 12
    healthy runs of a GPU at 2.7."""
    return HEALTHY_SHARE * SUSPECT
