"""ONNX models that mean harm: each a function that writes one into a folder.

They try to reach files outside of the folder, to take all memory or all time, or to confuse.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

SECRET = b"the secret of this machine, sixty-four bytes of it, no more!!!!!"
Build = Callable[[Path, Path], ModelProto]
"""Gets the folder of the model and one outside of it, which holds the file `secret`."""


def info(name: str, kind: int = TensorProto.FLOAT, shape: Sequence[int] | None = None):
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name: str, value: object) -> TensorProto:
    return numpy_helper.from_array(np.asarray(value), name)


def node(op: str, inputs: str, outputs: str = "y", **attrs: object) -> NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


def model(*nodes: NodeProto, weights: Sequence[TensorProto] = (), opset: int = 17) -> ModelProto:
    """A model of x (2x4) that makes `y`."""
    graph = helper.make_graph(list(nodes), "m", [info("x", shape=[2, 4])], [info("y")], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _outside(where: str, **more: str) -> ModelProto:
    tensor = TensorProto(name="w", data_type=TensorProto.UINT8, dims=[64])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": where, **more}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return model(node("Cast", "w", "y", to=TensorProto.FLOAT), weights=[tensor])


def weights_above_the_folder(folder: Path, place: Path) -> ModelProto:
    return _outside(os.path.relpath(place / "secret", folder))


def weights_at_an_absolute_path(folder: Path, place: Path) -> ModelProto:
    return _outside(str(place / "secret"))


def weights_behind_a_link(folder: Path, place: Path) -> ModelProto:
    (folder / "weights.bin").symlink_to(place / "secret")
    return _outside("weights.bin")


def weights_behind_a_linked_folder(folder: Path, place: Path) -> ModelProto:
    (folder / "data").symlink_to(place)
    return _outside("data/secret")


def weights_of_a_device(folder: Path, place: Path) -> ModelProto:
    return _outside("/dev/zero")


def weights_of_the_process(folder: Path, place: Path) -> ModelProto:
    return _outside("/proc/self/environ")


def weights_behind_the_end(folder: Path, place: Path) -> ModelProto:
    (folder / "w").write_bytes(bytes(64))
    return _outside("w", offset=str(2**62), length="64")


def weights_of_negative_length(folder: Path, place: Path) -> ModelProto:
    (folder / "w").write_bytes(bytes(64))
    return _outside("w", offset="-64", length="-1")


def weights_longer_than_memory(folder: Path, place: Path) -> ModelProto:
    (folder / "w").write_bytes(bytes(64))
    return _outside("w", length=str(2**62))


def weights_of_too_many_elements(folder: Path, place: Path) -> ModelProto:
    tensor = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[2**40, 2**40], raw_data=b"1234"
    )
    return model(node("Neg", "w"), weights=[tensor])


def weights_of_negative_sizes(folder: Path, place: Path) -> ModelProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[-1, -4], raw_data=bytes(16))
    return model(node("Neg", "w"), weights=[tensor])


def sparse_weights_out_of_place(folder: Path, place: Path) -> ModelProto:
    made = model(node("Neg", "w"))
    sparse = made.graph.sparse_initializer.add()
    sparse.dims.extend([2**40])
    sparse.values.CopyFrom(weight("w", np.ones(1, np.float32)))
    sparse.indices.CopyFrom(weight("", np.array([2**50])))
    return made


def a_constant_of_2_to_the_40(folder: Path, place: Path) -> ModelProto:
    return model(node("ConstantOfShape", "s"), weights=[weight("s", [2**40])])


def a_constant_of_overflowing_size(folder: Path, place: Path) -> ModelProto:
    return model(node("ConstantOfShape", "s"), weights=[weight("s", [2**32, 2**32, 2])])


def a_constant_of_negative_size(folder: Path, place: Path) -> ModelProto:
    return model(node("ConstantOfShape", "s"), weights=[weight("s", [-(2**40), -1])])


def many_constants_that_fit_alone(folder: Path, place: Path) -> ModelProto:
    names = [f"c{number}" for number in range(200)]
    made = [node("ConstantOfShape", "s", name) for name in names]
    return model(*made, node("Sum", " ".join(names)), weights=[weight("s", [2**25])])


def tiled(folder: Path, place: Path) -> ModelProto:
    return model(node("Tile", "x t"), weights=[weight("t", [2**20, 2**20])])


def expanded(folder: Path, place: Path) -> ModelProto:
    return model(node("Expand", "x s"), weights=[weight("s", [2**38, 2, 4])])


def a_long_range(folder: Path, place: Path) -> ModelProto:
    weights = [weight("a", np.int64(0)), weight("b", np.int64(2**50)), weight("c", np.int64(1))]
    return model(node("Range", "a b c", "r"), node("Cast", "r", to=1), weights=weights)


def padded(folder: Path, place: Path) -> ModelProto:
    return model(node("Pad", "x p"), weights=[weight("p", [2**30, 2**30, 2**30, 2**30])])


def one_hot_of_great_depth(folder: Path, place: Path) -> ModelProto:
    weights = [weight("d", np.int64(2**40)), weight("v", np.array([0, 1], np.float32))]
    return model(node("OneHot", "x d v"), weights=weights)


def resized(folder: Path, place: Path) -> ModelProto:
    sizes = [weight("z", np.array([2**30, 2**30]))]
    return model(helper.make_node("Resize", ["x", "", "", "z"], ["y"]), weights=sizes)


def reshaped_to_overflow(folder: Path, place: Path) -> ModelProto:
    return model(node("Reshape", "x s"), weights=[weight("s", [2**62, 4, 2])])


def an_input_of_2_to_the_40(folder: Path, place: Path) -> ModelProto:
    made = model(node("Neg", "x"))
    made.graph.input[0].CopyFrom(info("x", shape=[2**20, 2**20]))
    return made


def _loop(grows: NodeProto) -> ModelProto:
    body = helper.make_graph(
        [node("Identity", "c", "d"), grows],
        "body",
        [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("v")],
        [info("d", TensorProto.BOOL, []), info("w")],
    )
    weights = [weight("most", np.array(2**62)), weight("on", np.array(True))]
    return model(node("Loop", "most on x", body=body), weights=weights)


def an_endless_loop(folder: Path, place: Path) -> ModelProto:
    return _loop(node("Neg", "v", "w"))


def a_loop_that_doubles(folder: Path, place: Path) -> ModelProto:
    return _loop(node("Concat", "v v", "w", axis=0))


def _nested(depth: int) -> GraphProto:
    inner = helper.make_graph([node("Neg", "x", "z")], "g", [], [info("z")])
    for _ in range(depth):
        step = node("If", "on", "z", then_branch=inner, else_branch=inner)
        inner = helper.make_graph([step], "g", [], [info("z")])
    return inner


def branches_in_branches(folder: Path, place: Path) -> ModelProto:
    """As deep as doubles of doubles can be written: 2 ** 10 bodies."""
    inner = _nested(10)
    last = node("If", "on", "y", then_branch=inner, else_branch=inner)
    return model(last, weights=[weight("on", np.array(True))])


def deep_branches(folder: Path, place: Path) -> ModelProto:
    leaf = helper.make_graph([node("Neg", "x", "z")], "leaf", [], [info("z")])
    inner = leaf
    for _ in range(30):
        step = node("If", "on", "z", then_branch=inner, else_branch=leaf)
        inner = helper.make_graph([step], "g", [], [info("z")])
    last = node("If", "on", "y", then_branch=inner, else_branch=leaf)
    return model(last, weights=[weight("on", np.array(True))])


def _with_functions(made: ModelProto, *functions: tuple[str, list[NodeProto]]) -> ModelProto:
    made.opset_import.append(helper.make_opsetid("own", 1))
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    for name, nodes in functions:
        made.functions.append(helper.make_function("own", name, ["a"], ["b"], nodes, sets))
    return made


def a_function_that_calls_itself(folder: Path, place: Path) -> ModelProto:
    call = node("F", "a", "b", domain="own")
    return _with_functions(model(node("F", "x", domain="own")), ("F", [call]))


def functions_that_double(folder: Path, place: Path) -> ModelProto:
    """Written out they are 2 ** 30 ops."""
    functions: list[tuple[str, list[NodeProto]]] = [("F0", [node("Neg", "a", "b")])]
    for number in range(1, 31):
        before = f"F{number - 1}"
        twice = [node(before, "a", "c", domain="own"), node(before, "c", "b", domain="own")]
        functions.append((f"F{number}", twice))
    return _with_functions(model(node("F30", "x", domain="own")), *functions)


def an_op_of_a_custom_library(folder: Path, place: Path) -> ModelProto:
    made = model(node("RunThis", "x", domain="ai.onnx.contrib", command="touch written"))
    made.opset_import.append(helper.make_opsetid("ai.onnx.contrib", 1))
    return made


def an_op_in_python(folder: Path, place: Path) -> ModelProto:
    made = model(node("PyOp", "x", domain="pyop", module="os", class_name="system", compute="w"))
    made.opset_import.append(helper.make_opsetid("pyop", 1))
    return made


def a_domain_named_as_a_library(folder: Path, place: Path) -> ModelProto:
    made = model(node("Op", "x", domain=f"{place}/evil.so"))
    made.opset_import.append(helper.make_opsetid(f"{place}/evil.so", 1))
    return made


def a_compiled_context(folder: Path, place: Path) -> ModelProto:
    attrs = {"ep_cache_context": str(place / "secret"), "embed_mode": 0, "main_context": 1}
    made = model(node("EPContext", "x", domain="com.microsoft", **attrs))
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made


def names_that_are_paths(folder: Path, place: Path) -> ModelProto:
    hostile = f"../../{place.name}/written"
    return model(node("Neg", "x", hostile), node("Abs", hostile))


def names_that_act_on_terminals(folder: Path, place: Path) -> ModelProto:
    first = helper.make_node("Neg", ["x"], ["\x1b[2J\u202e\n%s"], name="\x1b]0;owned\x07")
    return model(first, helper.make_node("Abs", ["\x1b[2J\u202e\n%s"], ["y"]))


def a_name_of_a_megabyte(folder: Path, place: Path) -> ModelProto:
    return model(node("Neg", "x", "n" * 2**20), node("Abs", "n" * 2**20))


def ops_in_a_circle(folder: Path, place: Path) -> ModelProto:
    return model(node("Add", "x b", "a"), node("Add", "x a", "b"), node("Neg", "a"))


def one_name_twice(folder: Path, place: Path) -> ModelProto:
    return model(node("Neg", "x", "a"), node("Abs", "x", "a"), node("Neg", "a"))


def an_index_out_of_bounds(folder: Path, place: Path) -> ModelProto:
    return model(node("Gather", "x i"), weights=[weight("i", np.array([2**40, -(2**40)]))])


def an_attribute_of_another_type(folder: Path, place: Path) -> ModelProto:
    return model(node("Concat", "x x", axis="../secret"))


def an_equation_of_nonsense(folder: Path, place: Path) -> ModelProto:
    return model(node("Einsum", "x x", equation="a" * 10000 + ",->"))


def an_opset_of_the_far_future(folder: Path, place: Path) -> ModelProto:
    return model(node("Neg", "x"), opset=2**62)


def three_thousand_ops(folder: Path, place: Path) -> ModelProto:
    chain = [node("Neg", "x" if n == 0 else f"t{n - 1}", f"t{n}") for n in range(3000)]
    return model(*chain, node("Neg", "t2999"))


HOSTILE: tuple[Build, ...] = tuple(
    value
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__module__", "") == __name__
    and not name.startswith("_")
    and getattr(value, "__annotations__", {}).get("place")
)


def written(build: Build, folder: Path, place: Path) -> Path:
    """The model of *build* in a folder of its own, beside *place* with the secret."""
    folder.mkdir()
    place.mkdir()
    (place / "secret").write_bytes(SECRET)
    path = folder / "model.onnx"
    path.write_bytes(build(folder, place).SerializeToString())
    return path
