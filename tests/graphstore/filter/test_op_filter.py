"""The filter language: what each condition lets through, and how wrong texts are refused."""

from __future__ import annotations

import dataclasses
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphstore.errors import FilterError
from graphstore.filter import (
    FIELDS,
    FieldKind,
    Operator,
    OpFilter,
    Pattern,
    Term,
    near_misses,
    parse_filter,
)
from graphstore.model import (
    ErrorSplit,
    Guilt,
    Level,
    Metric,
    MetricSet,
    OpState,
    Reason,
    Role,
    Side,
)
from graphstore.op_row import OpRow
from tests.made.op_columns import columns_of


def fits(wanted: OpFilter, row: OpRow) -> bool:
    return bool(wanted.mask(columns_of([row] * (row.topo + 1)))[row.topo])


METRICS = MetricSet(
    cosine_similarity=0.9641,
    max_absolute_error=0.31,
    accumulated_relative_error=120.0,
    relative_euclidean_distance=0.27,
    kullback_leibler_divergence=0.004,
    standard_deviation=(0.5, 1.5, 0.6, 1.6),
    mean_absolute_error=0.02,
    root_mean_square_error=0.03,
    max_relative_error=7.0,
    mean_relative_error=0.4,
)

SOFTMAX = OpRow(
    topo=187,
    id="bert/layer_3/attention/SoftmaxV2_31",
    name="bert/layer_3/attention/SoftmaxV2_31",
    type="SoftmaxV2",
    side=Side.DEVICE,
    subgraph="",
    dtype="float16",
    shape=(1, 12, 128, 128),
    layout="FRACTAL_NZ",
    fused=2,
    originals=("bert/layer_3/attention/Softmax", "bert/layer_3/attention/mul"),
    state=OpState.ORIGIN,
    level=Level.FAIL,
    output=0,
    metrics=METRICS,
    failed=(Metric.COSINE_SIMILARITY, Metric.RELATIVE_EUCLIDEAN_DISTANCE),
    attributes=("axes=[-1]", "mode=same upper"),
    gain=37.2,
    origins=("bert/layer_3/attention/SoftmaxV2_31",),
    split=ErrorSplit(
        Role.INTRODUCES,
        Guilt.GUILTY,
        introduced=0.26,
        propagated=1e-4,
        floor=3e-4,
        suspicion=866.0,
    ),
)

TRANSDATA = OpRow(
    topo=176,
    id="body_1/trans TransData|30",
    name="trans TransData|30",
    type="TransData",
    side=Side.DEVICE,
    subgraph="body_1",
    dtype="float16",
    shape=None,
    layout="",
    fused=0,
    originals=(),
    state=OpState.NOT_COMPARED,
    reason=Reason.NO_GOLDEN_DUMP,
    detail="no file for bert/Cast:0",
)

CONSTANT = dataclasses.replace(
    TRANSDATA, topo=3, id="eps", name="eps", subgraph="", type="Const", shape=(), state=None
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "softmax",
        "SOFTMAXv2_31",
        "attention/Soft|nothing",
        '"layer_3/att"',
        "bert*31",
        "cos<0.99",
        "cos<=0.9641 cos>=0.9641",
        "cosine_similarity!=1",
        "cosine-similarity:0.9641",
        "maxabs>1e-2 are>100 red>0.05 euclid<1 kl<.005 mae<1 rmse<1 maxrel=7 meanrel<0.5",
        "std:1.5 mean:0.5 golden_std:1.6 golden_mean:0.6",
        "type:MatMul*|Softmax*",
        "type:softmaxv2",
        "!type:Softmax",
        "type!=Cast",
        "type~^soft.*2$",
        "dtype:fp16",
        "dtype:half|bf16",
        "dtype:f*16",
        "ns:layer_3",
        "ns:bert/layer_3",
        "ns:layer_*",
        "ns:/layer_3/attention/",
        "!ns:layer",
        "!ns:SoftmaxV2_31",
        "state:origin|inherited",
        "state!=clean",
        "level:fail",
        "fused>=2 topo=187 rank:4 output:0 gain>3",
        "shape:*,128,128",
        "shape:1x12x128x128",
        "shape:[1,12,*]",
        "shape:1,*,128",
        "!shape:*,64",
        "!shape:*,1,12,128,128",
        "layout:fractal_*",
        "orig:mul original:Softmax",
        "orig=bert/layer_3/attention/mul",
        "from:SoftmaxV2_31",
        "from:bert/layer_3/attention/SoftmaxV2_31",
        "from!=SoftmaxV2",
        "over:cos over:red !over:kl",
        "failed:any",
        "role:introduces guilt:guilty suspicion>10 introduced>0.1 propagated<1e-3 floor<1e-3",
        "role!=carries|amplifies !guilt:none amplification:none",
        "subgraph:none side:device reason:none",
        "name~layer_[0-4]/(attention|mlp)/",
        'attr:AXES attr:axes=[-1] attr:"=same upper" attr=axes=* !attr:pads attr~^mode',
    ],
)
def test_lets_the_origin_through(text):
    assert fits(parse_filter(text), SOFTMAX)


@pytest.mark.parametrize(
    "text",
    [
        "state:not_compared",
        'state:"not compared"',
        "state:not-compared",
        "state:none",
        "level:none over:none from:none gain:none cos:none",
        "reason:no_golden",
        'reason:"no golden dump"',
        "reason:bert/Cast",
        "fused:0 orig:none layout:none",
        "subgraph:body_*",
        "shape:none",
        'name:"trans TransData|30"',
        "'trans transdata'",
        "name=trans*30",
        "!cos<2 !cos>=2 !cos!=5",
        "id:body_1/*",
    ],
)
def test_lets_the_op_without_values_through(text):
    assert fits(parse_filter(text), TRANSDATA)


@pytest.mark.parametrize(
    "text",
    [
        "cos<0.9",
        "name:softmaxes",
        "name=SoftmaxV2_31",
        "type:Softmax",
        "type:Soft",
        "ns:SoftmaxV2_31",
        "ns:layer",
        "state:none",
        "from:V2_31",
        "shape:128,128",
        "shape:*",
        "orig=mul",
        "topo<187",
        "softmax !cos<0.99",
    ],
)
def test_holds_others_back(text):
    row = dataclasses.replace(SOFTMAX, shape=None) if text == "shape:*" else SOFTMAX
    assert not fits(parse_filter(text), row)


def test_nan_and_missing_values_satisfy_no_comparison_but_their_own_name():
    broken = dataclasses.replace(
        SOFTMAX, metrics=dataclasses.replace(METRICS, cosine_similarity=math.nan), gain=None
    )
    for condition in ("<1", "<=1", ">0", ">=0", "=0", "!=0", ":none", "!=nan"):
        assert not fits(parse_filter(f"cos{condition}"), broken), condition
    assert fits(parse_filter("cos:nan cos!=none gain:none cos:0.5|nan"), broken)
    assert not fits(parse_filter("gain!=none"), broken)
    assert fits(parse_filter("cos!=nan gain!=none"), SOFTMAX)


def test_scalar_is_a_shape_and_not_an_unknown_one():
    assert fits(parse_filter("shape:scalar shape:[] shape:* !shape:none rank:0"), CONSTANT)
    assert not fits(parse_filter("shape:scalar"), TRANSDATA)


def test_a_bare_word_finds_an_op_by_what_it_was_made_of():
    assert fits(parse_filter("attention/mul"), SOFTMAX)
    assert not fits(parse_filter("!attention/mul"), SOFTMAX)
    assert not fits(parse_filter("name:attention/mul"), SOFTMAX)
    assert not fits(parse_filter("attention/mul"), TRANSDATA)


def test_unknown_dimension_is_asked_for_by_a_question_mark():
    row = dataclasses.replace(SOFTMAX, shape=(None, 3, 224))
    assert fits(parse_filter("shape:?,3,224 shape:-1x3x224 shape:*,224"), row)
    assert not fits(parse_filter("shape:1,3,224"), row)


def test_an_imported_graph_has_no_states():
    assert fits(parse_filter("state:none !state:clean"), CONSTANT)


def test_a_star_in_quotes_can_be_meant_as_a_star():
    starred = dataclasses.replace(SOFTMAX, name="a*b")
    assert fits(parse_filter(r'name:"a\*b"'), starred)
    assert not fits(parse_filter(r'name:"a\*b"'), dataclasses.replace(SOFTMAX, name="axb"))


@pytest.mark.parametrize(
    ("text", "span", "says"),
    [
        ("type:Cast cso<1", "cso", "did you mean cos"),
        ("tpye:Cast", "tpye", "did you mean type"),
        ("mnist:bar", "mnist", "quote it"),
        ("a type:", "type:", "needs a value"),
        ("cos<", "cos<", "a number, nan or none"),
        ("cos<abc", "abc", "needs a number"),
        ("cos<nan", "nan", "write cosine_similarity:nan"),
        ("cos~9", "9", "use : ="),
        ("type<3", "3", "has no order"),
        ("name~(", "(", "regular expression"),
        ("state:orgin", "orgin", "did you mean origin"),
        ("level:bad", "bad", "one of pass, warn, fail"),
        ("over:cosine_similarty", "cosine_similarty", "did you mean cosine_similarity"),
        ("shape:1,b", "1,b", "not a shape"),
        ("x | y", "|", "missing before |"),
        ("x|", "|", "missing after |"),
        ("type:!Cast", "!", "!type:Cast"),
        ("!", "!", "needs one condition"),
        ("!!x", "!", "needs one condition"),
        ("<3", "<", "no field before it"),
        ('name:"open', '"open', 'closing "'),
        ('name:"a"b', "b", "blank is missing"),
    ],
)
def test_refusals_point_at_the_wrong_part(text, span, says):
    with pytest.raises(FilterError) as caught:
        parse_filter(text)
    assert text[caught.value.start : caught.value.end] == span
    assert says in str(caught.value)


@pytest.mark.parametrize("text", ["role:none", "guilt:none", "!suspicion>0", "!role:clean"])
def test_ops_without_analysis_have_no_role(text):
    assert fits(parse_filter(text), TRANSDATA)


def test_not_guilty_is_none():
    innocent = dataclasses.replace(SOFTMAX, split=ErrorSplit(Role.CARRIES, amplification=1.1))
    assert fits(parse_filter("guilt:none role:carries amp>1"), innocent)
    assert not fits(parse_filter("guilt:none"), SOFTMAX)


def test_every_metric_is_a_field_by_its_json_name():
    numbers = {field.name for field in FIELDS if field.kind is FieldKind.NUMBER}
    assert numbers >= {metric.value for metric in Metric}


def test_no_word_means_two_fields():
    words = [word for field in FIELDS for word in (field.name, *field.aliases)]
    assert len(words) == len(set(words))
    for word in words:
        assert parse_filter(f"{word}:none").terms[0].field in {field.name for field in FIELDS}


def test_near_misses_of_a_typing_error():
    assert near_misses("max_absolut_error")[0] == "max_absolute_error"
    assert near_misses("qqqq") == ()


def test_a_filter_travels_between_processes():
    filter_ = parse_filter("cos<0.99 !type:Cast")
    assert fits(filter_, SOFTMAX)
    assert pickle.loads(pickle.dumps(filter_)) == filter_


TEXT = st.text(st.sampled_from("abXY01_/.-*|\"'\\!:=<>~()[] \t\u00a0\u2003\u00dfé中"), max_size=12)


@st.composite
def patterns(draw):
    subgraphs = draw(st.lists(TEXT, min_size=1, max_size=4))
    inner = [piece for piece in subgraphs[1:-1] if piece]
    return Pattern(
        tuple([subgraphs[0], *inner, subgraphs[-1]] if len(subgraphs) > 1 else subgraphs)
    )


TEXT_FIELDS = [
    f.name
    for f in FIELDS
    if f.kind in (FieldKind.PART, FieldKind.TEXT, FieldKind.SCOPE, FieldKind.DTYPE)
]
NUMBER_FIELDS = [field.name for field in FIELDS if field.kind is FieldKind.NUMBER]
NUMBERS = st.floats(allow_nan=False).map(repr) | st.sampled_from(["1e-3", ".5", "-0", "inf"])
ORDERS = [operator for operator in Operator if operator is not Operator.REGEX]


@st.composite
def terms(draw):
    negated = draw(st.booleans())
    shape = draw(st.sampled_from(["text", "number", "regex", "choice"]))
    if shape == "number":
        values = tuple(Pattern((text,)) for text in draw(st.lists(NUMBERS, min_size=1, max_size=3)))
        return Term(
            draw(st.sampled_from(NUMBER_FIELDS)), draw(st.sampled_from(ORDERS)), values, negated
        )
    field = draw(st.sampled_from(TEXT_FIELDS))
    if shape == "regex":
        regex = draw(st.sampled_from(["a|b", "(x y)+", r"\d\*", "''", '"q"', "=x", r"\\ "]))
        return Term(field, Operator.REGEX, (Pattern((regex,)),), negated)
    if shape == "choice":
        values = tuple(Pattern((str(state),)) for state in draw(st.sets(st.sampled_from(OpState))))
        return Term("state", Operator.EQUAL, values or (Pattern(("none",)),), negated)
    operator = draw(st.sampled_from([Operator.FITS, Operator.EQUAL, Operator.UNEQUAL]))
    return Term(field, operator, tuple(draw(st.lists(patterns(), min_size=1, max_size=3))), negated)


@given(st.lists(terms(), max_size=4))
def test_the_text_of_a_filter_parses_to_the_same_filter(parts):
    filter_ = OpFilter(tuple(parts))
    again = parse_filter(str(filter_))
    assert again == filter_
    assert fits(again, SOFTMAX) == fits(filter_, SOFTMAX)


@given(TEXT)
def test_any_text_parses_or_is_refused_with_a_span_inside_it(text):
    start, end = span_of_refusal(text)
    assert 0 <= start <= end <= max(len(text), 1)


def span_of_refusal(text: str) -> tuple[int, int]:
    try:
        filter_ = parse_filter(text)
    except FilterError as refused:
        return refused.start, refused.end
    assert parse_filter(str(filter_)) == filter_
    return 0, len(text)


@given(st.lists(st.integers(0, 3), max_size=5), st.lists(st.sampled_from(["*", "0", "1", "2"])))
def test_shapes_fit_as_the_joined_texts_would(shape, items):
    if not items:
        return
    row = dataclasses.replace(SOFTMAX, shape=tuple(shape))
    expected = _fits(items, shape) or (items == ["*"] and not shape)
    assert fits(parse_filter(f"shape:{','.join(items)}"), row) is expected


def _fits(items: list[str], shape: list[int]) -> bool:
    if not items:
        return not shape
    if items[0] == "*":
        return any(_fits(items[1:], shape[taken:]) for taken in range(1, len(shape) + 1))
    return bool(shape) and items[0] == str(shape[0]) and _fits(items[1:], shape[1:])
