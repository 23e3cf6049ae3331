"""TensorFlow graphs that mean harm by what they take, not by the files they reach.

Each function gives a GraphDef whose placeholder `x` takes four floats, and whose `y` is asked for.
Those that reach for files are in `test_hostile_tensorflow`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Build = Callable[[Any], Any]


def _graph(tf: Any, build: Callable[[Any], Any]) -> Any:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [4], "x")
        tf.identity(build(x), name="y")
    return graph.as_graph_def()


def _sizes(tf: Any, sizes: list[int]) -> Any:
    """A shape nobody knows before the graph runs."""
    return tf.compat.v1.placeholder_with_default(tf.constant(sizes, tf.int64), None)


def a_fill_of_2_to_the_40(tf: Any) -> Any:
    return _graph(tf, lambda x: tf.fill(_sizes(tf, [2**40]), 1.0))


def a_fill_of_constant_size(tf: Any) -> Any:
    def build(x: Any) -> Any:
        size = tf.constant([2**20, 2**20], tf.int64)
        return tf.raw_ops.Fill(dims=size, value=tf.constant(1.0))

    return _graph(tf, build)


def a_size_that_overflows(tf: Any) -> Any:
    return _graph(tf, lambda x: tf.fill(_sizes(tf, [2**32, 2**32, 2]), 1.0))


def a_negative_size(tf: Any) -> Any:
    return _graph(tf, lambda x: tf.fill(_sizes(tf, [-(2**40)]), 1.0))


def tiled(tf: Any) -> Any:
    return _graph(tf, lambda x: tf.tile(x, _sizes(tf, [2**40])))


def a_long_range(tf: Any) -> Any:
    return _graph(tf, lambda x: tf.cast(tf.range(_sizes(tf, [2**50])[0]), tf.float32))


def padded(tf: Any) -> Any:
    return _graph(tf, lambda x: tf.pad(x, _sizes(tf, [[2**40, 2**40]])))


def random_numbers_without_end(tf: Any) -> Any:
    return _graph(tf, lambda x: tf.random.uniform(_sizes(tf, [2**40])))


def one_hot_of_great_depth(tf: Any) -> Any:
    def build(x: Any) -> Any:
        depth = tf.cast(_sizes(tf, [2**30])[0], tf.int32)
        return tf.one_hot([1, 2, 3, 4, 5, 6, 7, 8], depth)

    return _graph(tf, build)


def an_endless_loop(tf: Any) -> Any:
    return _graph(tf, lambda x: tf.while_loop(lambda v: True, lambda v: [-v], [x])[0])


def a_loop_that_doubles(tf: Any) -> Any:
    def build(x: Any) -> Any:
        any_size = [tf.TensorShape([None])]
        return tf.while_loop(
            lambda v: True, lambda v: [tf.concat([v, v], 0)], [x], shape_invariants=any_size
        )[0]

    return _graph(tf, build)


def a_list_that_grows(tf: Any) -> Any:
    def build(x: Any) -> Any:
        found = tf.TensorArray(tf.float32, 1, dynamic_size=True)
        _at, found = tf.while_loop(
            lambda at, found: True,
            lambda at, found: [at + 1, found.write(at, tf.tile(x, [2**20]))],
            [0, found],
        )
        return found.stack()

    return _graph(tf, build)


def _calling(tf: Any, depth: int, times: int) -> Any:
    """Functions each of which calls the one before *times* times."""
    made = _graph(tf, tf.function(lambda v: -v))
    first = made.library.function[0]
    before = first.signature.name
    for number in range(depth):
        function = made.library.function.add()
        function.CopyFrom(first)
        function.signature.name = f"calls_{number}"
        del function.node_def[:]
        entry = first.signature.input_arg[0].name
        for call in range(times):
            node = function.node_def.add(name=f"c{call}", op="PartitionedCall", input=[entry])
            node.attr["f"].func.name = before
            for kind in ("Tin", "Tout"):
                node.attr[kind].list.type.append(1)
            entry = f"c{call}:output:0"
        function.ret[first.signature.output_arg[0].name] = entry
        function.control_ret.clear()
        del function.signature.control_output[:]
        before = function.signature.name
    for node in made.node:
        if "f" in node.attr:
            node.attr["f"].func.name = before
    return made


def functions_in_functions(tf: Any) -> Any:
    return _calling(tf, 60, 1)


def functions_that_double(tf: Any) -> Any:
    """Written out they are 2 ** 40 ops."""
    return _calling(tf, 40, 2)


def a_function_that_calls_itself(tf: Any) -> Any:
    made = _graph(tf, tf.function(lambda v: -v))
    function = made.library.function[0]
    name = function.signature.name
    inner = function.node_def[0]
    inner.op = "PartitionedCall"
    inner.attr.clear()
    inner.attr["f"].func.name = name
    for kind in ("Tin", "Tout"):
        inner.attr[kind].list.type.append(1)
    return made


def a_constant_larger_than_said(tf: Any) -> Any:
    made = _graph(tf, lambda x: x + tf.constant([1.0, 2.0, 3.0, 4.0], name="c"))
    (constant,) = (each for each in made.node if each.name == "c")
    shape = constant.attr["value"].tensor.tensor_shape
    shape.dim[0].size = 2**50
    return made


def a_constant_of_overflowing_size(tf: Any) -> Any:
    made = a_constant_larger_than_said(tf)
    (constant,) = (each for each in made.node if each.name == "c")
    shape = constant.attr["value"].tensor.tensor_shape
    shape.dim.add().size = 2**50
    return made


def an_op_nobody_knows(tf: Any) -> Any:
    made = _graph(tf, lambda x: -x)
    made.node[1].op = "RunThisShell"
    return made


def _named(tf: Any, name: str) -> Any:
    made = _graph(tf, lambda x: tf.negative(x, name="n"))
    for each in made.node:
        each.name = each.name.replace("n", name)
        each.input[:] = [source.replace("n", name) for source in each.input]
    return made


def a_name_that_is_a_path(tf: Any) -> Any:
    return _named(tf, "../../place/written")


def a_name_that_acts_on_terminals(tf: Any) -> Any:
    return _named(tf, "\x1b]0;owned\x07\u202e")


def ops_in_a_circle(tf: Any) -> Any:
    made = _graph(tf, lambda x: tf.add(x, 1.0, name="a"))
    (last,) = (each for each in made.node if each.name == "a")
    last.input[1] = "y"
    return made


def an_assertion_that_fails(tf: Any) -> Any:
    def build(x: Any) -> Any:
        with tf.control_dependencies([tf.debugging.Assert(False, ["\x1b[2J"])]):
            return -x

    return _graph(tf, build)


HOSTILE: tuple[Build, ...] = tuple(
    value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", "") == __name__ and not name.startswith("_")
)
