"""Join the nodes of an exported program into a model graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphstore.model import (
    AttrValue,
    Constant,
    Framework,
    GraphKind,
    InputRef,
    ModelGraph,
    Op,
    Tensor,
    TensorRef,
)
from importers.kept import kept_list, kept_text, told_of
from importers.msprobe.graph import ARGUMENTS
from importers.names import MODULE_OUTPUTS, UniqueIds
from importers.torch_export.archive import ExportedProgram, element_type, integer_of, tensor_of

FORMAT = "torch_export"
"""The format of a graph read from an exported program."""
_ATEN = "torch.ops.aten."
_BODY = "torch.ops.higher_order.wrap_"
"""Operators that run one body as it is: without gradients, or in autocast."""
_FIELDS = ("as_tensor", "as_tensors", "as_optional_tensor", "as_optional_tensors")
_SCALARS = ("as_int", "as_float", "as_bool", "as_string", "as_sym_int", "as_sym_float",
            "as_sym_bool")  # fmt: skip
_LISTS = ("as_ints", "as_floats", "as_bools", "as_strings", "as_sym_ints", "as_int_lists")


@dataclass(slots=True)
class _Scope:
    """The names that nodes of one graph of the file know: what they stand for, and tensors."""

    refs: dict[str, InputRef] = field(default_factory=dict)
    tensors: Mapping[str, Any] = field(default_factory=dict)
    numbers: Mapping[str, Any] = field(default_factory=dict)
    before: str = ""
    """What begins the names of ops of a body, so that they are its own."""


class ExportedGraph:
    """The ops of an exported *program*, bodies in the place of what runs them."""

    def __init__(self, program: ExportedProgram) -> None:
        module = program.content["graph_module"]
        self._program = program
        self._ids = UniqueIds()
        self._unread: list[str] = []
        self._inside: dict[str, list[str]] = {}
        self.ops: list[Op] = []
        self.inputs: list[Tensor] = []
        self.constants: dict[str, Constant] = {}
        graph = module["graph"]
        scope = _scope(graph)
        for spec in module["signature"]["input_specs"]:
            self._enter(spec, scope)
        ends = self._walk(graph, scope)
        kinds = [next(iter(spec)) for spec in module["signature"]["output_specs"]]
        refs = [
            ref.producer
            for kind, ref in zip(kinds, ends, strict=False)
            if kind == "user_output" and ref is not None
        ]
        self.outputs = tuple(ref for ref in refs if ref is not None)
        self._name_module_outputs()

    def warnings(self) -> list[str]:
        """What was not read as it is, as lines for the user."""
        lines = [*self._ids.warnings()]
        lines += told_of(self._unread, "{argument is|arguments are} of a kind that is not read")
        ranges = self._program.content.get("range_constraints") or {}
        if ranges:
            names = ", ".join(ranges)
            lines.append(
                f"sizes that may vary ({names}) are those of the inputs it was exported with"
            )
        return lines

    def _enter(self, spec: Mapping[str, Any], scope: _Scope) -> None:
        """Take an input of the program: a weight by its name in the model, or what is fed."""
        ((kind, said),) = spec.items()
        arg = said.get("arg") or {}
        name = (arg.get("as_tensor") or arg).get("name")
        if not name or name not in scope.tensors:
            return  # a number or a token, which no op reads as a tensor
        tensor = tensor_of(str(name), scope.tensors[name])
        if kind == "user_input":
            self.inputs.append(tensor)
            scope.refs[name] = InputRef(tensor.name)
            return
        full = next((str(said[key]) for key in said if key.endswith("_name")), str(name))
        weight = self._program.weights.get(full)
        constant = Constant(replace(tensor, name=full)) if weight is None else weight.constant
        self.constants[full] = constant
        scope.refs[name] = InputRef(full)

    def _walk(self, graph: Mapping[str, Any], scope: _Scope) -> list[InputRef | None]:
        """Add the ops of *graph*; what it gives."""
        for node in graph["nodes"]:
            if node["target"].startswith(_BODY):
                self._inline(node, scope)
            elif any(_output_names(node)):
                self._op(node, scope)
        return [
            scope.refs.get(name) for output in graph["outputs"] for name in _tensor_names(output)
        ]

    def _inline(self, node: Mapping[str, Any], scope: _Scope) -> None:
        """Put the ops of the body that *node* runs in its place."""
        arguments = [entry["arg"] for entry in node["inputs"]]
        bodies = [arg["as_graph"] for arg in arguments if "as_graph" in arg]
        after = next((at for at, arg in enumerate(arguments) if "as_graph" in arg), 0)
        if len(bodies) != 1:
            self._op(node, scope)
            return
        graph = bodies[0]["graph"]
        inner = _scope(graph, before=f"{scope.before}{bodies[0]['name']}/")
        entries = [name for entry in graph["inputs"] for name in _tensor_names(entry)]
        fed = [name for arg in arguments[after + 1 :] for name in _tensor_names(arg)]
        for entry, name in zip(entries, fed, strict=False):
            if name in scope.refs:
                inner.refs[entry] = scope.refs[name]
        ends = self._walk(graph, inner)
        for name, ref in zip(_output_names(node), ends, strict=False):
            if ref is not None:
                scope.refs[name] = ref

    def _op(self, node: Mapping[str, Any], scope: _Scope) -> None:
        target = str(node["target"])
        aten = target.removeprefix(_ATEN).partition(".")[0]
        call = aten_call(aten) if target.startswith(_ATEN) else aten_call(target)
        metadata = node.get("metadata") or {}
        modules = _modules(metadata)
        outputs = list(_output_names(node))
        own = str(node.get("name") or outputs[0])
        name = "/".join(filter(None, (modules[-1] if modules else "", scope.before + own)))
        op = self._ids.take(name)
        attrs: dict[str, AttrValue] = {"kind": "Aten", "target": target.removeprefix("torch.ops.")}
        inputs: list[InputRef] = []
        places: list[str] = []
        for entry in node["inputs"]:
            place = call.places.get(entry["name"], entry["name"])
            value = self._argument(entry["arg"], scope, f"{name} {entry['name']}")
            for at, said in value.items():
                if isinstance(said, InputRef):
                    inputs.append(said)
                    places.append(place + at)
                else:
                    attrs[f"input.{place}{at}"] = said
        attrs[ARGUMENTS] = tuple(places)
        if modules:
            attrs["module"] = modules[-1]
        if metadata.get("stack_trace"):
            attrs["stack"] = kept_text(str(metadata["stack_trace"]))
        tensors = [
            replace(tensor_of(each, scope.tensors.get(each, {})), name=scope.before + each)
            for each in outputs
        ]
        for port, each in enumerate(outputs):
            scope.refs[each] = InputRef(tensors[port].name, TensorRef(op, port))
        self._inside[op] = modules
        self.ops.append(
            Op(op, name, call.type, tuple(inputs), outputs=tuple(tensors), attrs=attrs,
               sequence=len(self.ops))
        )  # fmt: skip

    def _argument(
        self, arg: Mapping[str, Any], scope: _Scope, what: str
    ) -> dict[str, InputRef | AttrValue]:
        """The tensors and values of one argument by their places in it, ``""`` for all of it."""
        for kind, value in arg.items():
            if kind == "as_tensor":
                ref = scope.refs.get(value["name"])
                return {} if ref is None else {"": ref}
            if kind == "as_optional_tensor":
                return self._argument(value, scope, what)
            if kind in ("as_tensors", "as_optional_tensors"):
                names = [entry.get("as_tensor", entry).get("name") for entry in value]
                return {
                    f".{at}": scope.refs.get(name, "None") if name else "None"
                    for at, name in enumerate(names)
                }
            if kind in _SCALARS or kind in _LISTS:
                is_word = kind == "as_float" and isinstance(value, str)  # JSON has no infinity
                said = float(value) if is_word else _plain(value, scope)
                return {} if said is None else {"": said}
            if kind == "as_scalar_type":
                dtype = element_type(value)
                return {} if dtype is None else {"": f"torch.{dtype}"}
        if not arg.keys() & {"as_none", "as_device", "as_layout", "as_memory_format"}:
            self._unread.append(what)
        return {}

    def _name_module_outputs(self) -> None:
        """Say of each op whose output is the only one that leaves a module that it is."""
        read_by: dict[str, list[set[str]]] = {}
        for op in self.ops:
            for ref in op.takes:
                read_by.setdefault(ref.op, []).append(set(self._inside[op.id]))
        leaves = {ref.op for ref in self.outputs}
        leaving: dict[str, list[str]] = {}
        for op in self.ops:
            for module in self._inside[op.id]:
                readers = read_by.get(op.id, [])
                if op.id in leaves or any(module not in inside for inside in readers):
                    leaving.setdefault(module, []).append(op.id)
        modules: dict[str, tuple[str, ...]] = {}
        for module, ops in leaving.items():
            if len(ops) == 1:
                modules[ops[0]] = (*modules.get(ops[0], ()), module)
        # A tensor called as a module that gives another one goes by the name of its op.
        renamed: dict[TensorRef | None, str] = {
            TensorRef(op.id, port): f"{op.name}:{port}"
            for op in self.ops
            for port, tensor in enumerate(op.outputs)
            if tensor.name in leaving and tensor.name not in modules.get(op.id, ())
        }
        self.ops = [_with_modules(op, modules.get(op.id, ()), renamed) for op in self.ops]


def _with_modules(op: Op, modules: tuple[str, ...], renamed: Mapping[TensorRef | None, str]) -> Op:
    inputs = tuple(
        None if ref is None else replace(ref, tensor=renamed.get(ref.producer, ref.tensor))
        for ref in op.inputs
    )
    outputs = tuple(
        replace(tensor, name=renamed.get(ref, tensor.name))
        for ref, tensor in zip(op.makes, op.outputs, strict=True)
    )
    attrs = {**op.attrs, MODULE_OUTPUTS: modules} if modules else op.attrs
    return replace(op, inputs=inputs, outputs=outputs, attrs=attrs)


def exported_graph(program: ExportedProgram, path: Path, digest: str) -> ModelGraph:
    """The graph of *program*, read from *path*, a file with this SHA-256 *digest*.

    Raises:
        KeyError, TypeError: it is not built as such programs are.
    """
    graph = ExportedGraph(program)
    version = str(program.content.get("torch_version", ""))
    return ModelGraph(
        name=path.stem,
        kind=GraphKind.ORIGINAL,
        framework=Framework.PYTORCH,
        format=FORMAT,
        ops=tuple(graph.ops),
        inputs=tuple(graph.inputs),
        outputs=graph.outputs,
        constants=tuple(graph.constants.values()),
        attrs={"torch_version": version},
        warnings=tuple(graph.warnings()),
        source=str(path),
        sha256=digest,
    )


def _scope(graph: Mapping[str, Any], before: str = "") -> _Scope:
    return _Scope({}, graph["tensor_values"], graph.get("sym_int_values") or {}, before)


def _tensor_names(arg: Mapping[str, Any]) -> Iterator[str]:
    for kind, value in arg.items():
        if kind in _FIELDS and value:
            entries: Iterable[Any] = value if isinstance(value, list) else [value]
            for entry in entries:
                name = entry.get("as_tensor", entry).get("name")
                if name:
                    yield str(name)


def _output_names(node: Mapping[str, Any]) -> Iterator[str]:
    for output in node["outputs"]:
        yield from _tensor_names(output)


def _modules(metadata: Mapping[str, Any]) -> list[str]:
    """The paths of the modules a node ran in, the outermost first: ``key,path,type;...``."""
    entries = str(metadata.get("nn_module_stack") or "").split(";")
    paths = [entry.split(",")[1] for entry in entries if entry.count(",") >= 2]
    return [path for path in paths if path]


def _plain(value: Any, scope: _Scope) -> AttrValue | None:
    if isinstance(value, list):
        plain = [_plain(each, scope) for each in value]
        return None if None in plain else kept_list([each for each in plain if each is not None])
    if isinstance(value, dict):
        number = value.get("as_int")
        if number is None:
            number = integer_of(scope.numbers.get(str(value.get("as_name"))))
        return number if type(number) is int else None
    if isinstance(value, str):
        return kept_text(value)
    return value if isinstance(value, bool | int | float) else None


# Which call of PyTorch each operator of ATen is, and what its arguments are called there.
#
# Source: ``aten/src/ATen/native/native_functions.yaml``. Operators are called as functions and
# methods of PyTorch are, with arguments of the same names, ``self`` for ``input``; the table has
# those that are not.


@dataclass(frozen=True, slots=True)
class AtenCall:
    """The *type* of call an operator is, and the places of arguments that are called otherwise."""

    type: str
    places: Mapping[str, str] = field(default_factory=dict)


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in text.split())


_TYPES = _pairs(
    "_to_copy=to _log_softmax=log_softmax _softmax=softmax _unsafe_view=view numpy_T=T "
    "constant_pad_nd=pad bitwise_and=__and__ bitwise_or=__or__ bitwise_xor=__xor__ "
    "bitwise_not=__invert__ lift_fresh_copy=clone lift_fresh=clone unsafe_split=split "
    "unsafe_chunk=chunk copy=copy_ fill=fill_ hardswish_=hardswish index=__getitem__ "
    "_unsafe_index=__getitem__ masked_fill_=masked_fill max_pool2d_with_indices=max_pool2d "
    "max_pool3d_with_indices=max_pool3d _adaptive_avg_pool2d=adaptive_avg_pool2d "
    "_adaptive_avg_pool3d=adaptive_avg_pool3d log_sigmoid=logsigmoid new_zeros=zeros "
    "new_ones=ones new_full=full matrix_norm=norm _weight_norm=weight_norm"
)
_PLACES = {
    "batch_norm": "running_mean=1 running_var=2 weight=3 bias=4",
    "dot": "tensor=other",
    "dropout": "train=training",
    "dropout_": "train=training",
    "einsum": "equation=0 tensors=1",
    "embedding": "indices=input",
    "index": "indices=1",
    "_unsafe_index": "indices=1",
    "mv": "vec=other",
    "addmv": "mat=mat1 vec=mat2",
    "baddbmm": "batch1=mat1 batch2=mat2",
    "lstm": "input=0 hx=1 params=2 has_biases=3 num_layers=4 dropout=5 train=6 bidirectional=7 "
    "batch_first=8",
    "gru": "input=0 hx=1 params=2 has_biases=3 num_layers=4 dropout=5 train=6 bidirectional=7 "
    "batch_first=8",
}


def aten_call(name: str) -> AtenCall:
    """The call that the operator *name* (``linear``) is."""
    places = {"self": "input", **_pairs(_PLACES.get(name, ""))}
    return AtenCall(_TYPES.get(name, name), places)
