"""Recorded runs of PyTorch and MindSpore: calls, their nesting, and what their data tells."""

from __future__ import annotations

import json
import random

import pytest

from graphstore.errors import ImportFormatError
from graphstore.model import DType, EdgeKind, Framework, GraphKind, InputRef, TensorRef
from graphstore.traverse.topological_order import topo_order
from importers.msprobe.calls import CallName
from importers.registry import read_graph


def tensor(seed: float, shape=(2, 3), dtype="torch.float32", **more):
    return {
        "type": "torch.Tensor",
        "dtype": dtype,
        "shape": list(shape),
        "Max": seed + 1.5,
        "Min": seed - 1.5,
        "Mean": seed,
        "Norm": abs(seed) * 2,
        "requires_grad": False,
    } | more


def number(value):
    return {"type": "int", "value": value}


X, W, Y, Z, LOSS = (tensor(seed) for seed in (1.0, 2.0, 3.0, 4.0, 5.0))
GRAD_Z, GRAD_Y = tensor(6.0), tensor(7.0)
CALLS = {
    "Functional.linear.0.forward": {"input_args": [X, W, None], "input_kwargs": {}, "output": [Y]},
    "Module.fc.Linear.forward.0": {
        "input_args": [X],
        "input_kwargs": {},
        "output": [Y],
        "parameters": {"weight": W},
    },
    "Functional.relu.0.forward": {
        "input_args": [Y],
        "input_kwargs": {"inplace": {"type": "bool", "value": False}, "sizes": [number(1)]},
        "output": [Z],
        "is_recompute": False,
    },
    "Module.net.Sequential.forward.0": {"input_args": [X], "input_kwargs": {}, "output": [Z]},
    "Functional.relu.0.backward": {"input": [GRAD_Z], "output": [GRAD_Y]},
    "Module.fc.Linear.backward.0": {"input": [GRAD_Y], "output": [None]},
    "Module.fc.Linear.parameters_grad.0": {"weight": [tensor(8.0)]},
}  # fmt: skip
NESTING = {
    "Functional.linear.0.forward": "Module.fc.Linear.forward.0",
    "Module.fc.Linear.forward.0": "Module.net.Sequential.forward.0",
    "Functional.relu.0.forward": "Module.net.Sequential.forward.0",
    "Module.net.Sequential.forward.0": None,
    "Functional.relu.0.backward": "",
}
OUTER, LINEAR = "Module.net.Sequential.forward.0", "Module.fc.Linear.forward.0"


@pytest.fixture
def run_of(tmp_path):
    def read(calls=CALLS, construct=NESTING, stack=None, framework="pytorch", **header):
        head = {"task": "statistics", "level": "mix", "framework": framework, "dump_data_dir": None}
        files = {"dump.json": head | header | {"data": calls}, "construct.json": construct}
        for name, content in (files | {"stack.json": stack}).items():
            if content is not None:
                (tmp_path / name).write_text(json.dumps(content, indent=1))
        return read_graph(tmp_path / "dump.json")

    return read


def test_a_run_is_an_original_graph_of_its_calls(run_of):
    graph = run_of()
    assert (graph.kind, graph.framework, graph.format) == (
        GraphKind.ORIGINAL,
        Framework.PYTORCH,
        "msprobe",
    )
    assert [op.name for op in graph.ops] == list(CALLS)
    assert [op.type for op in graph.ops] == [
        *("linear", "Linear", "relu", "Sequential"),
        *("relu.backward", "Linear.backward", "Linear.parameters_grad"),
    ]
    assert graph.attrs["task"] == "statistics"
    assert run_of(framework="mindspore").framework is Framework.MINDSPORE


@pytest.mark.parametrize(
    ("name", "kind", "type_", "way"),
    [
        ("Functional.conv2d.0.forward", "Functional", "conv2d", "forward"),
        ("Primitive.norm.RmsNorm.0.forward", "Primitive", "RmsNorm", "forward"),
        ("Tensor.__add__.12.backward", "Tensor", "__add__", "backward"),
        ("Cell.net.layers.0.Dense.backward.3", "Cell", "Dense", "backward"),
        ("Module.forward.Linear.parameters_grad", "Module", "Linear", "parameters_grad"),
        ("optimizer", "optimizer", "optimizer", ""),
        ("...", "", "...", ""),
    ],
)
def test_names_of_calls(name, kind, type_, way):
    known = CallName.of(name)
    assert (known.kind, known.type, known.way) == (kind, type_, way)


def test_modules_own_the_calls_inside_them(run_of):
    graph = run_of()
    bodies = {body.name: body.owner for body in graph.subgraphs}
    assert bodies == {LINEAR: f"{OUTER}/{LINEAR}", OUTER: OUTER}
    ops = {op.name: op for op in graph.ops}
    assert ops["Functional.linear.0.forward"].id == f"{LINEAR}/Functional.linear.0.forward"
    assert ops["Functional.relu.0.forward"].subgraph == OUTER
    assert ops[OUTER].owns == (OUTER,)
    assert ops["Functional.relu.0.backward"].subgraph == ""


def test_tensors_are_followed_by_their_statistics(run_of):
    ops = {op.name: op for op in run_of().ops}
    linear = f"{OUTER}/{LINEAR}"
    assert ops["Functional.relu.0.forward"].inputs == (
        InputRef("Functional.relu.0.forward.input.0", TensorRef(linear, 0)),
    )
    # A module passes on what a call inside it made.
    assert [ref.producer for ref in ops[LINEAR].inputs] == [
        None,
        TensorRef(f"{LINEAR}/Functional.linear.0.forward", 0),
        None,
    ]
    assert ops[OUTER].inputs[1].producer == TensorRef(f"{OUTER}/Functional.relu.0.forward", 0)
    assert ops["Module.fc.Linear.backward.0"].inputs[0].producer == TensorRef(
        "Functional.relu.0.backward", 0
    )


def test_weights_are_constants(run_of):
    graph = run_of()
    name = f"{LINEAR}.parameters.weight"
    assert [constant.tensor.name for constant in graph.constants] == [name]
    assert [ref.tensor for ref in graph.ops[0].inputs] == [
        "Functional.linear.0.forward.input.0",
        name,
    ]


def test_what_is_inferred_is_told(run_of):
    (told,) = run_of().warnings
    assert "do not say which tensor went where" in told
    assert " 0 " not in told


def test_a_way_back_follows_the_way_there(run_of):
    ops = {op.name: op for op in run_of().ops}
    assert ops["Functional.relu.0.backward"].control_inputs == (
        f"{OUTER}/Functional.relu.0.forward",
    )
    assert ops["Module.fc.Linear.parameters_grad.0"].control_inputs == (
        f"{OUTER}/{LINEAR}",
        "Module.fc.Linear.backward.0",
    )


def test_all_edges_lead_forward_in_time(run_of):
    graph = run_of()
    assert topo_order(graph) == [op.id for op in graph.ops]
    told = 4  # by equal statistics; then two ways back use their ways there, one gives a weight's
    assert sum(edge.kind is EdgeKind.DATA for edge in graph.edges()) == told + 3


def test_tensors_have_their_types_shapes_and_names(run_of):
    calls = {
        "Mint.add.0.forward": {
            "input_args": [tensor(1.0, (4,), "Float32"), number(3), [tensor(2.0, (), "BFloat16")]],
            "input_kwargs": {"out": tensor(3.0, (0, 7), "Bool")},
            "output": [
                [tensor(4.0, (1,), "Int64"), None],
                {"aux": tensor(5.0, (2,), "torch.half")},
            ],
        }
    }
    (op,) = run_of(calls, construct=None).ops
    assert [(t.name.removeprefix(f"{op.name}."), t.dtype, t.shape) for t in op.outputs] == [
        ("output.0.0", DType.INT64, (1,)),
        ("output.1.aux", DType.FLOAT16, (2,)),
    ]
    assert [ref.tensor.removeprefix(f"{op.name}.") for ref in op.inputs] == [
        *("input.0", "input.2.0", "input.out"),
    ]
    assert op.attrs["input.1"] == 3


def test_a_reshape_may_be_left_out_of_the_record(run_of):
    calls = {
        "Torch.one.0.forward": {"input_args": [], "output": [tensor(1.0, (2, 6))]},
        "Torch.two.0.forward": {"input_args": [tensor(1.0, (3, 4)), tensor(1.0, (5,))]},
    }
    one, two = run_of(calls, construct=None).ops
    assert [ref.producer for ref in two.inputs] == [TensorRef(one.id, 0), None]


@pytest.mark.parametrize(
    ("said", "joined"),
    [
        (tensor(3.0), True),
        (tensor(0.0, Max=0.0, Min=0.0, Norm=0.0), False),  # zeros are everywhere
        (tensor(0.0, (), Max=1, Min=1, Mean=1, Norm=1), False),  # a counter
        (tensor(0.0, (), Max=6.93, Min=6.93, Mean=6.93, Norm=6.93), True),  # a loss
        (tensor(0.0, dtype="torch.bool", Max=True, Min=False, Mean=None, Norm=None), False),
        (tensor(0.0, Max=float("nan")), False),
        (tensor(0.0, Max=float("inf")), False),
        (tensor(0.0, (0, 3)), False),
        (tensor(0.0, Max=None, Min=None, md5="4d5e"), True),
    ],
)
def test_only_telling_statistics_join_calls(run_of, said, joined):
    calls = {
        "Torch.one.0.forward": {"input_args": [], "output": [said]},
        "Torch.two.0.forward": {"input_args": [said], "output": []},
    }
    one, two = run_of(calls, construct=None).ops
    assert (two.inputs[0].producer is not None) is joined
    assert two.control_inputs == (() if two.takes else (one.id,))


def test_the_latest_of_equal_outputs_is_taken(run_of):
    calls = {
        f"Torch.copy.{at}.forward": {"input_args": [tensor(1.0)], "output": [tensor(1.0)]}
        for at in range(3)
    }
    ops = run_of(calls, construct=None).ops
    producers = [op.inputs[0].producer for op in ops]
    assert producers == [None, TensorRef(ops[0].id, 0), TensorRef(ops[1].id, 0)]


def test_a_call_that_was_not_dumped_is_passed_over(run_of):
    construct = {"Torch.a.0.forward": "Module.in.M.forward.0", "Module.in.M.forward.0": OUTER}
    calls = {"Torch.a.0.forward": {}, OUTER: {}}
    graph = run_of(calls, construct)
    assert [op.subgraph for op in graph.ops] == [OUTER, ""]
    assert graph.ops[0].attrs["inside"] == "Module.in.M.forward.0"
    graph = run_of({"Torch.a.0.forward": {}}, construct)
    assert [(body.name, body.owner) for body in graph.subgraphs] == [("Module.in.M.forward.0", "")]
    assert any("not dumped" in told for told in graph.warnings)


def test_nesting_that_turns_in_a_circle_is_cut(run_of):
    graph = run_of({"a": {}, "b": {}}, {"a": "b", "b": "a"})
    assert any("nested in itself" in told for told in graph.warnings)
    assert len(topo_order(graph)) == 2


def test_runs_of_megatron_say_the_micro_step(run_of):
    construct = {
        "Torch.a.0.forward": [OUTER, 3],
        OUTER: [None, 3],
        "megatron_micro_step_number": 4,
    }
    ops = run_of({"Torch.a.0.forward": {}, OUTER: {}}, construct).ops
    assert [(op.subgraph, op.attrs["micro_step"]) for op in ops] == [(OUTER, 3), ("", 3)]


def test_a_construct_file_of_megatron_alone(tmp_path):
    construct = {"Torch.a.0.forward": [OUTER, 3], OUTER: [None, 3], "megatron_micro_step_number": 4}
    path = tmp_path / "construct.json"
    path.write_text(json.dumps(construct, indent=1))
    assert [op.subgraph for op in read_graph(path).ops] == [OUTER, ""]


def test_a_way_back_ran_in_the_way_back_of_what_held_the_way_there(run_of):
    """The file says otherwise where a module works in place: its hook does not fire."""
    there, back = "Module.net.Block.forward.0", "Module.net.Block.backward.0"
    construct = {
        "Torch.a.0.forward": there,
        there: None,
        "Torch.a.0.backward": "Module.other.ReLU.backward.2",
        back: None,
    }
    calls = {"Torch.a.0.forward": {}, there: {}, "Torch.a.0.backward": {}, back: {}}
    assert [op.subgraph for op in run_of(calls, construct).ops] == [there, "", back, ""]


@pytest.mark.parametrize(
    "stack",
    [
        {LINEAR: ["File a.py, line 1", "File b.py, line 2 "]},
        {"0": [[LINEAR, "other"], ["File a.py, line 1", "File b.py, line 2 "]]},
    ],
)
def test_stacks_old_and_new(run_of, stack):
    ops = {op.name: op for op in run_of(stack=stack).ops}
    assert ops[LINEAR].attrs["stack"] == "File a.py, line 1\nFile b.py, line 2"


def test_a_construct_file_alone_gives_the_calls(tmp_path):
    path = tmp_path / "construct.json"
    path.write_text(json.dumps(NESTING))
    graph = read_graph(path)
    assert len(graph.ops) == 5
    assert any("no dump.json" in told for told in graph.warnings)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        ("File /x/torch/_dynamo/eval_frame.py, line 9, in compile_wrapper", "torch.compile"),
        ("File /x/torch/cuda/graphs.py, line 9, in __enter__", "CUDA graph"),
        ("File net.py, line 3, in forward", ""),
    ],
)
def test_what_ran_otherwise_without_a_dump_is_said_first(run_of, frame, said):
    warnings = run_of(stack={LINEAR: ["File a.py, line 1", frame]}).warnings
    assert warnings[0].startswith("the dumped run may be another") is bool(said)
    assert said in warnings[0]


def test_a_stack_file_leads_to_its_run_or_says_what_is_missing(tmp_path, run_of):
    (tmp_path / "stack.json").write_text(json.dumps({LINEAR: ["File a.py"]}))
    with pytest.raises(ImportFormatError, match="a stack file alone"):
        read_graph(tmp_path / "stack.json")
    run_of()
    assert len(read_graph(tmp_path / "stack.json").ops) == len(CALLS)


def failure_of(path) -> ImportFormatError | None:
    try:
        read_graph(path)
    except ImportFormatError as error:
        return error
    return None


def test_any_damaged_byte_ends_in_a_graph_or_an_error(tmp_path, run_of):
    run_of()
    rng = random.Random(3)
    for name in ("dump.json", "construct.json"):
        content = (tmp_path / name).read_bytes()
        for _ in range(150):
            damaged = bytearray(content)
            for _ in range(rng.randint(1, 3)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            (tmp_path / name).write_bytes(damaged)
            failure = failure_of(tmp_path / "dump.json")
            assert failure is None or "\n" not in str(failure)
        (tmp_path / name).write_bytes(content)
