"""Runs whose every text, number and optional field may be anything."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from graphstore.contract import RunData
from graphstore.model import (
    Comparison,
    Counts,
    DeviceArithmetic,
    DType,
    ErrorSplit,
    Figures,
    Finding,
    FindingKind,
    Framework,
    GraphKind,
    Guilt,
    InputMismatch,
    InputRef,
    Level,
    Method,
    Metric,
    MetricSet,
    ModelGraph,
    Op,
    OpState,
    OracleAnswer,
    Origin,
    OutputShares,
    PartVerdict,
    Reason,
    Role,
    Run,
    RunAnalysis,
    SideFigures,
    Tensor,
    TensorIO,
    TensorOrigin,
    TensorRef,
    Verdict,
)

FLOATS = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from(
    [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.7976931348623157e308]
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)


@st.composite
def metric_sets(draw: st.DrawFn) -> MetricSet:
    values = {
        metric.value: draw(FLOATS) for metric in Metric if metric is not Metric.STANDARD_DEVIATION
    }
    return MetricSet(
        **values,
        standard_deviation=draw(st.tuples(FLOATS, FLOATS, FLOATS, FLOATS)),
        elements=draw(st.integers(0, 2**40)),
        device_nonfinite=draw(st.integers(0, 9)),
        golden_nonfinite=draw(st.integers(0, 9)),
        notes=draw(st.dictionaries(st.sampled_from(list(Metric)), TEXTS, max_size=2)),
    )


COUNTS = st.integers(-1, 2**62)
FIGURES = st.builds(
    Figures,
    device=st.builds(SideFigures, *[st.floats()] * 4, *[COUNTS] * 3),
    golden=st.builds(SideFigures, *[st.floats()] * 4, *[COUNTS] * 3),
    equal=COUNTS,
    bad=COUNTS,
    first_bad=COUNTS,
    worst=COUNTS,
    max_ulp=st.none() | st.floats(),
    cosine_distance=st.none() | st.floats(),
    where_bad=TEXTS,
)
SPLITS = st.builds(
    ErrorSplit,
    role=st.sampled_from(list(Role)),
    guilt=st.sampled_from(list(Guilt)),
    introduced=st.none() | st.floats(),
    propagated=st.none() | st.floats(),
    floor=st.none() | st.floats(),
    suspicion=st.none() | st.floats(),
    amplification=st.none() | st.floats(),
    group=st.lists(TEXTS, max_size=2).map(tuple),
    reference=TEXTS,
    failure=TEXTS,
)
NUMBERS = st.none() | st.floats()
ANALYSES = st.builds(
    RunAnalysis,
    suspect=st.floats(),
    note=TEXTS,
    arithmetic=st.builds(
        DeviceArithmetic,
        precision=TEXTS,
        quantised=st.booleans(),
        operands=st.dictionaries(TEXTS, TEXTS, max_size=2),
        functions=st.dictionaries(TEXTS, st.floats(), max_size=2),
        fp32_ops=st.lists(TEXTS, max_size=2).map(tuple),
    ),
    mismatches=st.lists(st.builds(InputMismatch, TEXTS, TEXTS, NUMBERS, NUMBERS), max_size=2).map(
        tuple
    ),
    blame=st.builds(OutputShares, st.dictionaries(TEXTS, st.floats(), max_size=2), NUMBERS),
    minimized=TEXTS,
    blamed=TEXTS,
    answers=st.dictionaries(
        TEXTS,
        st.dictionaries(
            TEXTS,
            st.lists(
                st.builds(OracleAnswer, st.sampled_from(PartVerdict), TEXTS, NUMBERS, NUMBERS),
                max_size=2,
            ).map(tuple),
            max_size=2,
        ),
        max_size=2,
    ),
)
VALUES = st.dictionaries(
    TEXTS,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
        max_leaves=4,
    ),
    max_size=2,
)


@st.composite
def whole_runs(draw: st.DrawFn) -> RunData:
    """A run whose every text, number and optional field may be anything."""
    names = draw(st.lists(TEXTS.filter(bool), min_size=1, max_size=8, unique=True))
    shapes = st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3).map(tuple)
    dtypes = st.none() | st.sampled_from(list(DType))
    attrs = st.recursive(
        st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
        lambda inner: st.lists(inner, max_size=3).map(tuple),
        max_leaves=4,
    )
    refs = st.builds(TensorRef, st.sampled_from(names), st.integers(0, 2))
    origins = st.none() | st.builds(
        TensorOrigin, TEXTS, st.integers(0, 2), st.none() | TEXTS, dtypes, shapes
    )
    tensors = st.builds(Tensor, TEXTS, dtypes, shapes, st.none() | TEXTS, origins)
    ops = tuple(
        Op(
            id=name,
            name=draw(TEXTS),
            type=draw(TEXTS),
            inputs=draw(
                st.lists(st.none() | st.builds(InputRef, TEXTS, st.none() | refs), max_size=2).map(
                    tuple
                )
            ),
            control_inputs=draw(st.lists(st.sampled_from(names), max_size=1).map(tuple)),
            outputs=draw(st.lists(tensors, max_size=2).map(tuple)),
            attrs=draw(st.dictionaries(TEXTS, attrs, max_size=2)),
            original_names=draw(st.none() | st.lists(TEXTS, max_size=2).map(tuple)),
            sequence=draw(st.integers(-(2**70), 2**70)),
        )
        for name in names
    )
    device = ModelGraph(draw(TEXTS), GraphKind.DEVICE, Framework.ASCEND, draw(TEXTS), ops)
    golden = ModelGraph("golden", GraphKind.ORIGINAL, Framework.CAFFE, "x", ())
    comparisons = tuple(
        Comparison(
            op=name,
            io=draw(st.sampled_from(list(TensorIO))),
            port=draw(st.integers(0, 3)),
            metrics=metrics,
            level=draw(st.none() | st.sampled_from(list(Level))),
            reason=None if metrics else draw(st.sampled_from(list(Reason))),
            detail=draw(TEXTS),
            address=draw(st.none() | st.integers(0, 2**64)),
            overflow=draw(st.none() | st.booleans()),
            figures=draw(st.none() | FIGURES),
            split=draw(st.none() | SPLITS),
            limit=draw(TEXTS),
        )
        for name in names
        for metrics in (draw(st.none() | metric_sets()),)
    )
    run = Run(
        "any",
        golden.id,
        device.id,
        "2026-01-01T00:00:00Z",
        Verdict.WITHIN_ROUNDING,
        Method.THRESHOLDS,
        Counts(1, 2, 3, 4, 5),
        {"x": math.inf},
        analysis=draw(ANALYSES),
    )
    findings = st.builds(
        Finding,
        kind=st.sampled_from(list(FindingKind)),
        label=TEXTS,
        sentence=TEXTS,
        op=st.sampled_from([*names, "", "no op"]),
        io=st.sampled_from(list(TensorIO)),
        port=st.integers(-1, 3),
        confidence=st.floats(0, 1) | st.just(math.nan),
        evidence=VALUES,
    )
    states = {name: draw(st.sampled_from(list(OpState))) for name in names}
    suspects = [
        Origin(1, name, "T", 0, (), metrics, Level.WARN, draw(st.none() | st.floats()), draw(TEXTS))
        for name in draw(st.lists(st.sampled_from(names), max_size=2))
        for metrics in (draw(metric_sets()),)
    ]
    return RunData(
        run,
        golden,
        device,
        (),
        comparisons,
        states,
        (),
        tuple(suspects),
        tuple(draw(st.lists(findings, max_size=3))),
    )
