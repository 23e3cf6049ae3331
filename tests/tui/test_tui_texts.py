"""The texts of panes: nothing that matters is cut where there is no room."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from divergraph.ask.answers import OpDetail, ReasonGroup, TensorRow
from divergraph.ask.overview_answers import overview
from graphstore.model import (
    Comparison,
    Counts,
    DType,
    Level,
    Metric,
    MetricSet,
    OpState,
    Reason,
    RunAnalysis,
    Side,
    TensorIO,
    Verdict,
)
from graphstore.op_row import OpRow
from graphstore.open_store import open_store
from tui.render import detail_text, overview_rows, overview_text
from tui.screens.palette import SHOWN_OPS, fitting
from tui.style.glyphs import UNICODE
from tui.widgets.columns import place

LONG = "/".join(f"层_{number}/[block]" for number in range(30))


def detail_of(name: str) -> OpDetail:
    shape = (1, 2)
    row = OpRow(
        7, name, name, "Add", Side.DEVICE, "", "float16", shape, "ND", 1, (name,), OpState.CLEAN
    )
    output = TensorRow(0, name, None, (name,), DType.FLOAT16, shape, "ND", None)
    return OpDetail(row, {"note": name}, (), (output,), (), (), "within every limit")


@pytest.mark.parametrize("width", [24, 60, 200])
def test_one_op_in_full_shows_all_of_a_long_name(width):
    lines = detail_text.facts(detail_of(LONG), UNICODE, width, whole=True).split("\n")
    assert max(line.cell_length for line in lines) <= max(width, detail_text.LABEL + 20)
    text = "".join(line.plain[detail_text.LABEL :].rstrip() for line in lines)
    assert text.count(LONG) == 4, "as op, output, original and attribute"


def test_the_short_text_keeps_the_end_of_a_long_name_and_where_it_goes():
    text = detail_text.facts(detail_of(LONG), UNICODE, 60).plain
    assert LONG not in text
    outputs = next(line for line in text.split("\n") if line.startswith("outputs"))
    assert f"{UNICODE.feeds} {UNICODE.ellipsis}" in outputs
    assert "[block]  1,2" in outputs


@pytest.mark.parametrize("room", [30, 60])
def test_a_number_is_never_cut_short(room):
    groups = (ReasonGroup(Reason.NO_DEVICE_DUMP, 1_234_567, ("a",)),)
    rows = overview_rows.reasons(SimpleNamespace(reasons=groups))
    count = next(placed for placed in place(rows.columns, room) if placed.column.id == "count")
    assert count.width >= len(rows.row(0)[0].text) == len("1 234 567")


@pytest.mark.parametrize(
    ("limit", "shown", "general"),
    [
        ("default: relative_euclidean_distance > 0.05", "0.05", True),
        ("attention: relative_euclidean_distance > 0.3", "> 0.3", False),
        ("attention: within every limit", "attention: within every limit", False),
        ("", "0.05", True),
    ],
)
def test_the_metrics_name_the_rule_that_decided_and_not_limits_of_others(limit, shown, general):
    values = MetricSet(
        0.9, 0.4, 0.4, 0.4, 0.4, (0.1, 0.2, 0.1, 0.2), 0.1, 0.1, 0.1, 0.1, elements=2
    )
    compared = Comparison(
        "op", TensorIO.OUTPUT, 0, metrics=values, level=Level.FAIL, shape=(2,), limit=limit,
        failed=(Metric.RELATIVE_EUCLIDEAN_DISTANCE,),
    )  # fmt: skip
    limits = {"relative_euclidean_distance": 0.05, "cosine_similarity": 0.99}
    text = detail_text.metrics(compared, limits, UNICODE, 70).plain
    line = next(line for line in text.split("\n") if line.startswith("relative Euclidean"))
    rule = [line for line in text.split("\n") if line.startswith("rule")]
    assert shown in (line if "within" not in limit else rule[0])
    assert (f"{UNICODE.at_least} 0.99" in text) is general
    assert bool(rule) is bool(limit)


@pytest.mark.parametrize(
    ("room", "said"),
    [
        (80, "DIVERGED  first at ◆ net/卷积/Conv  topo 64/164"),
        (47, "DIVERGED  first at ◆ net/卷积/Conv  topo 64/164"),
        (46, "DIVERGED  first at ◆ net/卷积/Conv  topo 64"),
        (43, "DIVERGED  first at ◆ net/卷积/Conv  topo 64"),
        (42, "DIVERGED  first at ◆ net/卷积/Conv"),
        (31, "DIVERGED  first at ◆ …卷积/Conv"),
    ],
)
def test_the_name_of_the_origin_is_shortened_last(room, said):
    row = SimpleNamespace(id="net/卷积/Conv", topo=64)
    run = SimpleNamespace(verdict=Verdict.DIVERGED)
    overview = SimpleNamespace(run=run, origin_rows=(row,), device_ops=164, is_whole=True)
    line = overview_text.headline(overview, UNICODE, room + 2)
    assert line.plain == f"{UNICODE.bad} {said}"
    assert line.cell_length <= room + 2


@pytest.mark.parametrize(
    ("compared", "inside", "beside", "said"),
    [
        (2, 0, 0, "CLEAN  only 2 of 32 tensors could be compared"),
        (16, 0, 0, "CLEAN"),
        (2, 14, 0, "CLEAN"),
        (2, 0, 28, "CLEAN"),
        (2, 3, 20, "CLEAN  only 5 of 12 tensors could be judged"),
    ],
)
def test_a_verdict_over_few_tensors_says_so(compared, inside, beside, said):
    """What lies inside judged ops is judged, and constants are not to be compared."""
    counts = Counts(ops=9, tensors=32, compared=compared, over=0, not_compared=32 - compared)
    analysis = RunAnalysis(inside=inside, beside=beside)
    run = SimpleNamespace(verdict=Verdict.CLEAN, counts=counts, analysis=analysis)
    overview = SimpleNamespace(run=run, origin_rows=())
    line = overview_text.headline(overview, UNICODE, 80).plain
    assert line.rstrip() == f"{UNICODE.good} {said}"


def test_the_palette_offers_the_ops_a_query_says_most_of():
    names = [f"model/conv_{number}/weight/read" for number in range(100)]
    names += ["model/block/Conv", "model/conv_7", "other"]
    assert fitting("model conv", names)[0] == "model/block/Conv"
    assert fitting("CONV_7", names)[:2] == ["model/conv_7", "model/conv_7/weight/read"]
    assert len(fitting("conv", names)) == SHOWN_OPS
    assert fitting("conv other", names) == []


@pytest.mark.parametrize(
    ("inherited", "broken", "said"),
    [(3, 0, "1 origin, 3 inherit"), (0, 11, "1 origin, 11 broken"), (0, 0, "1 origin, 0 inherit")],
)
def test_the_title_counts_what_the_error_is_in(inherited, broken, said):
    counts = {OpState.INHERITED: inherited, OpState.BROKEN: broken}
    overview = SimpleNamespace(origins=["one"], suspects=(), state_counts=counts, is_whole=True)
    assert overview_text.origins_title(overview).endswith(said)


def test_a_long_sentence_ends_with_a_sign_that_there_is_more(analysed_store):
    with open_store(str(analysed_store)) as store:
        found = overview(store, "15")
    shown = overview_text.verdict(found, UNICODE, 24).plain.split("\n")
    assert shown[4].endswith(UNICODE.ellipsis)
    assert "channels 8-15" in " ".join(
        overview_text.verdict(found, UNICODE, 60).plain.split("\n")[1:4]
    )
