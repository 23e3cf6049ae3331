"""Every query of docs/reference/cypher.md and schema.md, with its answer, on runs made for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import neo4j
import pytest
from full_run import metric_set

from graphstore.contract import GraphStore, QueryParameters, RunData
from graphstore.cypher.store import CypherStore
from graphstore.model import (
    Comparison,
    Counts,
    DType,
    ErrorSplit,
    Finding,
    FindingKind,
    Framework,
    GraphKind,
    Guilt,
    InputRef,
    Level,
    LineageLink,
    LineageRule,
    Method,
    ModelGraph,
    Op,
    OpState,
    Origin,
    Reason,
    Role,
    Run,
    Tensor,
    TensorIO,
    TensorRef,
    Verdict,
)

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES = "\n".join((REFERENCE / name).read_text("utf-8") for name in ("cypher.md", "schema.md"))

DEVICE = {
    # op: type, originals, what feeds it
    "block1/in": ("Data", ("x",), None),
    "block1/conv": ("Conv2D", ("conv", "conv/bias", "conv/relu"), "block1/in"),
    "block1/pool": ("MaxPool", ("pool",), "block1/conv"),
    "block2/fc": ("MatMul", ("fc", "fc/bias"), "block1/pool"),
    "block2/cast": ("Cast", (), "block2/fc"),
    "block2/softmax": ("Softmax", ("softmax",), "block2/cast"),
}
ATTRS = {"block1/conv": {"strides": (2, 2), "groups": 1}, "block1/pool": {"strides": (2, 2)}}
SHAPES = {"block1/in": (None, 3, 8, 8), "block1/conv": (None, 16, 4, 4), "block1/pool": (None, 16)}
DTYPES = {"block2/cast": DType.FLOAT32, "block2/softmax": DType.FLOAT32}
GOLDEN = {
    "x": "Placeholder",
    "conv": "Conv2D",
    "conv/bias": "BiasAdd",
    "conv/relu": "Relu",
    "pool": "MaxPool",
    "fc": "MatMul",
    "fc/bias": "BiasAdd",
    "softmax": "Softmax",
}
CLEAN = ErrorSplit(Role.CLEAN, Guilt.NONE, 0.0001, 0.0, 0.0001, 1.0)
MAKES = ErrorSplit(Role.INTRODUCES, Guilt.GUILTY, 0.25, 0.0005, 0.0001, 2500.0)
GROWS = ErrorSplit(Role.AMPLIFIES, Guilt.NONE, 0.0001, 0.75, 0.0001, 1.0, 3.0)
ANSWERS: Mapping[str, list[tuple[Any, ...]]] = {
    "Where the error starts": [(1, "block2/fc", "MatMul", 3)],
    "Types of ops by role": [
        ("amplifies", "Softmax", 1, 3.0),
        ("introduces", "MatMul", 1, None),
    ],
    "Carried from a guilty op": [("block2/fc", 5, "block2/softmax", "amplifies", 0.75)],
    "Values that are not finite": [(5, "block2/softmax", 0, 4, 24)],
    "Fine in one run and over a limit in another": [
        ("block2/fc", "after", "before"),
        ("block2/softmax", "after", "before"),
    ],
    "Models and their graphs": [
        ("job", "device", 5),
        ("net", "original", 8),
        ("net2", "original", 8),
        ("net2_device", "device", 6),
        ("net_device", "device", 6),
    ],
    "Runs and what they compare": [
        ("after", "diverged", "net_device", "net"),
        ("before", "clean", "net_device", "net"),
        ("other", "diverged", "net2_device", "net2"),
    ],
    "Ops with an attribute": [
        ("block1/conv", "Conv2D", ["groups=1", "strides=[2,2]"]),
        ("block1/pool", "MaxPool", ["strides=[2,2]"]),
    ],
    "Tensors with four axes": [
        ("block1/in", 0, "float16", [-1, 3, 8, 8]),
        ("block1/conv", 0, "float16", [-1, 16, 4, 4]),
    ],
    "What reads a tensor": [("block1/pool", 0)],
    "What an op reads": [(0, "block1/pool", "float16", [-1, 16])],
    "Where the type changes": [("block2/cast", "float16", "float32")],
    "The first op of a type that is over a limit": [(3, "block2/fc", 0.75)],
    "Over a limit although all that it reads is not": [(3, "block2/fc"), (5, "block2/softmax")],
    "The worst of each type": [
        ("MatMul", 1, 0.75),
        ("Conv2D", 1, 0.9995),
        ("MaxPool", 1, 0.9995),
    ],
    "The outputs of the model": [("block2/softmax", 0, "fail")],
    "What an op was made of": [
        ("conv", "Conv2D", "original_names"),
        ("conv/bias", "BiasAdd", "original_names"),
        ("conv/relu", "Relu", "original_names"),
    ],
    "What became of an original": [("block2/fc", "MatMul")],
    "What the compiler inserted": [("block2/cast", "Cast")],
    "Made of several ops, with their types in order": [
        ("block1/conv", ["Conv2D", "BiasAdd", "Relu"]),
        ("block2/fc", ["MatMul", "BiasAdd"]),
    ],
    "The same fusion wrong in other runs": [
        (["MatMul", "BiasAdd"], ["after", "other"], ["block2/fc", "block2/fc"]),
    ],
    "Between two ops and over a limit": [(3, "block2/fc", 0.75)],
    "The shortest path from the origin to the output": [
        (["block2/fc", "block2/cast", "block2/softmax"],)
    ],
    "Two runs of one graph, tensor by tensor": [
        ("block2/fc", 0, "pass", "fail"),
        ("block2/softmax", 0, "pass", "fail"),
    ],
    "Why outputs were not compared": [
        ("inserted", ["block2/cast"]),
        ("no_task", ["block1/in"]),
    ],
    "Findings and the ops they are about": [
        ("after", "block2/fc", "lost_bias", 0.9),
        ("other", "block2/fc", "lost_bias", 0.9),
    ],
    "From one rank of a job to another": [
        ("rank0/linear", "ranks0-1/all_reduce", [0, 1], "rank1/add"),
    ],
    "Long paths": [
        (2, "block1/pool"),
        (3, "block2/fc"),
        (4, "block2/cast"),
        (5, "block2/softmax"),
    ],
}


def queries() -> Iterator[tuple[str, str, str]]:
    """(title, dialect or nothing, text) of each query of the page."""
    title = ""
    for heading, dialect, cypher in re.findall(
        r"^##+ ([^\n]+)$|^```cypher ?(\w*)\n(.*?)```", PAGES, re.DOTALL | re.MULTILINE
    ):
        title = heading or title
        if cypher:
            yield title, dialect, cypher


@pytest.fixture(scope="module")
def page_store(module_store: GraphStore) -> CypherStore:
    """A store with the runs of the page: before and after something went wrong, and another."""
    assert isinstance(module_store, CypherStore)
    module_store.save_run(page_run("after"))
    module_store.save_run(page_run("before", fine=True))
    module_store.save_run(page_run("other", model="net2"))
    module_store.save_graph(job_graph(), "job")
    return module_store


@pytest.mark.slow
@pytest.mark.parametrize(("title", "dialect", "cypher"), list(queries()))
def test_a_query_of_the_page_answers(
    page_store: CypherStore, title: str, dialect: str, cypher: str
) -> None:
    if dialect not in ("", page_store.dialect):
        pytest.skip(f"for {dialect} only")
    target = "after" if re.search(r"\$(run|device|golden|graph)\b", cypher) else None
    parameters = QueryParameters({"before": "before", "after": "after"})
    answer = page_store.query(cypher, parameters, target)
    assert list(answer.rows) == ANSWERS[title]


@pytest.mark.slow
def test_lists_have_one_order_unless_the_rows_had_one(page_store: CypherStore) -> None:
    text = (
        "MATCH (d:Op {name: 'block1/conv'})-[f:FUSES {run: 'after'}]->(o:Op) WITH d, o<> "
        "RETURN d.name AS op, collect(o.type) AS types"
    )
    for order, types in (
        ("", ["BiasAdd", "Conv2D", "Relu"]),
        (
            " ORDER BY o.topo",
            ["Conv2D", "BiasAdd", "Relu"],
        ),
    ):
        answer = page_store.query(text.replace("<>", order), QueryParameters())
        assert answer.rows == (("block1/conv", types),)


@pytest.mark.neo4j
@pytest.mark.slow
def test_the_official_driver_gives_the_same_answers(
    page_store: CypherStore, request: pytest.FixtureRequest
) -> None:
    """Nothing of ours stands between who asks by hand and the server."""
    if page_store.dialect != "neo4j":
        pytest.skip("there is a driver for Neo4j only")
    server = request.getfixturevalue("neo4j_server")
    keys = page_store._place("after")
    values = {"run": keys.run, "device": keys.device, "before": "before", "after": "after"}
    with neo4j.GraphDatabase.driver(server.url, auth=(server.user, server.password)) as driver:
        for title, dialect, cypher in queries():
            if dialect in ("", "neo4j"):
                rows = driver.execute_query(cypher, values, result_transformer_=neo4j.Result.values)
                assert list(map(tuple, rows)) == ANSWERS[title], title


def test_every_answer_has_its_query() -> None:
    assert {title for title, _, _ in queries()} == set(ANSWERS)


def page_run(name: str, *, model: str = "net", fine: bool = False) -> RunData:
    """A run whose error starts at a fused op, unless it is *fine*; its input was damaged."""
    device, golden = page_graphs(model)
    small = metric_set(0.0005)
    bad = small if fine else metric_set(0.25)
    damaged = metric_set(0.25, standard_deviation=(7.5, 1.0, 0.2, 1.1))
    broken = metric_set(float("nan"), device_nonfinite=4)
    fail = Level.PASS if fine else Level.FAIL
    comparisons = (
        Comparison("block1/in", TensorIO.OUTPUT, 0, reason=Reason.NO_TASK),
        replace(compared("block1/conv", "conv/relu", small, Level.PASS), split=CLEAN),
        replace(compared("block1/pool", "pool", small, Level.PASS), split=CLEAN),
        compared("block2/fc", "pool", small if fine else damaged, fail, TensorIO.INPUT),
        replace(compared("block2/fc", "fc/bias", bad, fail), split=CLEAN if fine else MAKES),
        Comparison("block2/cast", TensorIO.OUTPUT, 0, reason=Reason.INSERTED),
        replace(
            compared("block2/softmax", "softmax", small if fine else broken, fail),
            split=CLEAN if fine else GROWS,
        ),
    )
    states = dict.fromkeys(DEVICE, OpState.CLEAN)
    links = [
        LineageLink(op, original, LineageRule.ORIGINAL_NAMES)
        for op, (_, originals, _) in DEVICE.items()
        for original in originals
    ]
    origins = (
        []
        if fine
        else [Origin(1, "block2/fc", "MatMul", 0, (TensorRef("fc/bias", 0),), bad, Level.FAIL)]
    )
    run = Run(
        name,
        golden.id,
        device.id,
        "2026-01-01T00:00:00Z",
        Verdict.CLEAN if fine else Verdict.DIVERGED,
        Method.THRESHOLDS,
        Counts(6, 7, 5, 0 if fine else 3, 2),
        {},
    )
    found = Finding(FindingKind.CAUSE, "lost_bias", "the bias is missing", "block2/fc", port=0)
    return RunData(
        run,
        golden,
        device,
        tuple(links),
        comparisons,
        states,
        tuple(origins),
        findings=() if fine else (replace(found, confidence=0.9),),
    )


def compared(op: str, golden: str, metrics, level: Level, io=TensorIO.OUTPUT) -> Comparison:
    ref = TensorRef(golden, 0)
    return Comparison(op, io, 0, ref, LineageRule.SAME_NAME, metrics, level)


def job_graph() -> ModelGraph:
    """An all_reduce between two ranks, each of which has an op before and behind it."""

    def op(name: str, *sources: str, rank: tuple[int, ...]) -> Op:
        ranks = {"rank": rank[0]} if len(rank) == 1 else {"ranks": rank}
        inputs = tuple(InputRef(f"{one}:0", TensorRef(one, 0)) for one in sources)
        return Op(name, name, "call", inputs, outputs=(Tensor(f"{name}:0"),), attrs=ranks)

    ops = (
        op("rank0/linear", rank=(0,)),
        op("rank1/linear", rank=(1,)),
        op("ranks0-1/all_reduce", "rank0/linear", "rank1/linear", rank=(0, 1)),
        op("rank0/add", "ranks0-1/all_reduce", rank=(0,)),
        op("rank1/add", "ranks0-1/all_reduce", rank=(1,)),
    )
    job = {"ranks": (0, 1)}
    return ModelGraph("job", GraphKind.DEVICE, Framework.PYTORCH, "msprobe", ops, attrs=job)


def page_graphs(model: str) -> tuple[ModelGraph, ModelGraph]:
    device = [
        Op(
            op,
            op,
            kind,
            () if source is None else (InputRef(f"{source}:0", TensorRef(source, 0)),),
            outputs=(Tensor(f"{op}:0", DTYPES.get(op, DType.FLOAT16), SHAPES.get(op)),),
            attrs=ATTRS.get(op, {}),
            original_names=originals,
        )
        for op, (kind, originals, source) in DEVICE.items()
    ]
    golden = [Op(op, op, kind, outputs=(Tensor(f"{op}:0"),)) for op, kind in GOLDEN.items()]
    return (
        ModelGraph(
            f"{model}_device", GraphKind.DEVICE, Framework.ASCEND, "ge_proto", tuple(device)
        ),
        ModelGraph(model, GraphKind.ORIGINAL, Framework.TENSORFLOW, "meta", tuple(golden)),
    )
