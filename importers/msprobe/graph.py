"""Join the calls of a recorded run into a model graph.

The files say which call ran inside which and in what order, but not which tensor went where.
An input is the output that the dump says it is (``divergraph.torch`` writes this), else it is taken
to be the latest earlier output with equal statistics (or checksum); where nothing tells, a control
edge keeps the order. So every edge leads forward in time. An output of
another shape but as many elements will do: a reshape between may not be recorded. What views, casts
and sums of gradients brought (``unrecorded.py``) are further inputs of the call, behind its own;
the names of their tensors say how they came.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from graphstore.errors import ImportFormatError
from graphstore.model import (
    AttrValue,
    Constant,
    Framework,
    GraphKind,
    InputRef,
    ModelGraph,
    Op,
    Subgraph,
    Tensor,
    TensorRef,
    op_id,
)
from importers.kept import kept_text, told_of
from importers.msprobe.calls import Call, CallName, CallTensor, Key, call_of
from importers.msprobe.collectives import KIND
from importers.msprobe.importer import RunFiles
from importers.msprobe.unrecorded import COMPUTED, GRADIENT, INSIDE, Brought, Unrecorded, WaysBack
from importers.msprobe.values import RecordedValues

_MICRO_STEPS = "megatron_micro_step_number"
ARGUMENTS = "tensors"
"""The attribute with the places of a call's tensors among its arguments, in the order of the op's
inputs: ``0`` and ``1.2`` of a list, or the name of a keyword."""
UNRECORDED = "unrecorded"
"""The attribute with how each further input of a call came: ``view``, ``cast``, ``gradient``."""
_MODULES = ("Module", "Cell")
_RUN_OTHERWISE = {
    re.compile(r"torch/_(?:dynamo|inductor)/|<eval_with_key>"): "are compiled by torch.compile, "
    "which calls op by op while a dump is made",
    re.compile(r"torch/cuda/graphs\.py"): "are captured in a CUDA graph, which replays its kernels "
    "without any call",
}
"""Frames of compilers and graphs, and what is true of a call below them."""
_FRAMEWORKS = {"mindspore": Framework.MINDSPORE, "pytorch": Framework.PYTORCH}


def run_graph(files: RunFiles) -> ModelGraph:
    """The graph of a run.

    Raises:
        ImportFormatError: an entry is not built as such entries are, or there is none.
    """
    entries = files.calls
    if entries is None:
        entries = {name: {} for name in files.construct if name != _MICRO_STEPS}
    if not entries:
        raise ImportFormatError(files.path, "the run holds no call", hint="was anything dumped?")
    try:
        calls = [call_of(name, entry) for name, entry in entries.items()]
    except ValueError as error:
        raise ImportFormatError(files.path, str(error)) from error
    read = _without_buffers(calls)
    joined = _Joined(read, files)
    told = joined.warnings()
    if len(read) < len(calls):
        told.append(
            "parts of memory that is written later, by calls that were not recorded, are left out: "
            f"{len(calls) - len(read)} of narrow"
        )
    if files.calls is None:
        told.append("only the nesting of calls is known: there is no dump.json next to the file")
    elif not files.construct:
        told.append("calls are not nested: there is no construct.json next to the dump.json")
    return ModelGraph(
        name=_name(files.path),
        kind=GraphKind.ORIGINAL,
        framework=_framework(files, calls),
        format="msprobe",
        ops=tuple(joined.ops),
        subgraphs=tuple(joined.subgraphs()),
        inputs=tuple(joined.inputs),
        outputs=joined.outputs(),
        constants=tuple(joined.constants.values()),
        attrs={
            key: kept_text(value) for key, value in files.header.items() if isinstance(value, str)
        },
        warnings=tuple(told),
        source=str(files.path),
        sha256=files.sha256,
    )


def _without_buffers(calls: list[Call]) -> list[Call]:
    """*calls* but those that take a part of flat memory no call wrote, from which none reads: FSDP
    writes there what it gathers, below Python. What is in it before is any number, or none."""
    read = {tensor.flat for call in calls for tensor in call.inputs if tensor.key}
    made = {tensor.flat for call in calls for tensor in call.outputs if tensor.key}
    return [
        call
        for call in calls
        if (call.name.type, call.name.way) != ("narrow", "forward")
        or any(len(tensor.shape or ()) != 1 or tensor.flat in made for tensor in call.inputs)
        or any(tensor.flat in read for tensor in call.outputs)
    ]


def own_inputs(op: Op) -> int:
    """How many inputs of a recorded call are its arguments and parameters; they come first."""
    brought = op.attrs.get(UNRECORDED, ())
    return len(op.inputs) - (len(brought) if isinstance(brought, tuple) else 0)


def output_places(op: Op) -> tuple[str, ...]:
    """Where each output of a recorded call is in what it returned, such as ``0``: of a way back,
    the place of the argument whose gradient it is; "" of all that it returned."""
    begin = len(op.name) + 1
    return tuple(
        tensor.name[begin:].removeprefix("output").removeprefix(".") for tensor in op.outputs
    )


class _Joined:
    def __init__(self, calls: list[Call], files: RunFiles) -> None:
        self._stacks = _stacks(files.stack)
        self._nesting = _Nesting((call.name.full for call in calls), files.construct)
        self._weights = {
            tensor.key: tensor.name for call in calls for tensor in call.parameters if tensor.key
        }
        self._parameters = {tensor.name for call in calls for tensor in call.parameters}
        self._given: set[Key] = set()
        self._micro_steps = {
            name: said[1]
            for name, said in files.construct.items()
            if isinstance(said, list) and len(said) == 2 and type(said[1]) is int
        }
        self._made: dict[Key, TensorRef] = {}
        self._made_flat: dict[Key, TensorRef] = {}
        self._made_named: dict[str, TensorRef] = {}
        self._ids: dict[str, str] = {}
        self._last: dict[str, str] = {}
        self._bodies: dict[str, list[Op]] = {}
        self._read: set[str] = set()
        self._passed: set[str] = set()  # to others, unrecorded; still outputs where none else reads
        self._flows = self._orders = self._untold = self._inferred = 0
        self._unrecorded = Unrecorded(RecordedValues(files).distinct)
        self._ways_back = WaysBack(self._nesting.is_inside)
        self._remarks = [*_remarks(files.header), *_run_otherwise(self._stacks.values())]
        self.ops: list[Op] = []
        self.inputs: list[Tensor] = []
        self.constants: dict[str, Constant] = {}
        owning = set(self._nesting.parents.values())
        self._has_functions = any(call.name.kind not in _MODULES for call in calls)
        for at, call in enumerate(calls):
            op = self._op(at, call, owning)
            self.ops.append(op)
            self._bodies.setdefault(op.subgraph, []).append(op)

    def warnings(self) -> list[str]:
        """What was inferred, as lines for the user."""
        told = [*self._remarks, *self._nesting.told]
        if self._flows or self._orders:
            joined = (
                (
                    self._flows,
                    "input",
                    "joined to the latest earlier output of the same statistics",
                ),
                (self._inferred, "input", "joined through views, casts or sums nobody recorded"),
                (self._untold, "input", "joined to none"),
                (self._orders, "call", "known only to follow the one before"),
            )
            said = (
                f"{count} {noun}{' is' if count == 1 else 's are'} {how}"
                for count, noun, how in joined
                if count
            )
            told.append(f"the files do not say which tensor went where: {', '.join(said)}")
        return told

    def subgraphs(self) -> list[Subgraph]:
        """A body for each call that others ran in, in the order of the calls."""
        ids = {op.name: op.id for op in self.ops}
        by_id = {op.id: op for op in self.ops}
        found = []
        for body, members in self._bodies.items():
            if body:
                owner = by_id.get(ids.get(body, ""))
                outputs = () if owner is None else self._fed(owner, members)
                role = "calls" if owner else ""
                found.append(Subgraph(body, owner.id if owner else "", role, outputs=outputs))
        return found

    def outputs(self) -> tuple[TensorRef, ...]:
        """What no later call read, of the outermost calls."""
        return tuple(
            TensorRef(op.id, port)
            for op in self.ops
            if not op.subgraph and op.id not in self._read
            for port in range(len(op.outputs))
        )

    def _fed(self, owner: Op, members: list[Op]) -> tuple[tuple[int, TensorRef], ...]:
        inside = {op.id for op in members}
        passed = [ref.producer for ref in owner.inputs if ref and ref.producer]
        made = [ref for ref in passed if ref.op in inside]
        tensors = {op.id: op.outputs for op in members}
        return tuple(
            (port, ref)
            for port, tensor in enumerate(owner.outputs)
            for ref in made
            if tensors[ref.op][ref.port].shape == tensor.shape
        )[: len(owner.outputs)]

    def _op(self, at: int, call: Call, owning: set[str]) -> Op:
        name = call.name.full
        body = self._nesting.parents.get(name, "")
        op = op_id(name, body)
        self._ids[name] = op
        self._ways_back.add_call(call.name, op)
        own = [self._input(tensor) for tensor in call.inputs]
        inputs: list[InputRef | None] = [*own]
        passed = [self._passed_on(tensor, name) for tensor in call.outputs if name in owning]
        inputs += passed
        for ref in passed:
            if ref is not None and ref.producer is not None:
                self._ways_back.add_reader(ref.producer, call.name, "")
        for tensor in call.parameters:
            self.constants.setdefault(tensor.name, Constant(_plain(tensor)))
            inputs.append(InputRef(tensor.name))
        brought = list(self._brought(call, own, body))
        if name in owning and not any(passed):
            is_back = call.name.way == "backward"
            inside = self._ways_back.added_inside(call.name) if is_back else []
            brought += self._joined(name, inside or self._computed(call.name, name))
        inputs += brought
        refs = [ref for ref in inputs if ref is not None]
        controls = self._order(call, body, inside=not any(passed))
        if not controls and body in self._last and not any(ref.producer for ref in refs):
            controls = [self._last[body]]
            self._orders += 1
        self._add_outputs(call, op)
        self._last[body] = op
        attrs: dict[str, AttrValue] = dict(call.attrs)
        if call.inputs:  # an input that is a weight has the weight's name, which says no place
            begin = len(f"{name}.input.")
            attrs[ARGUMENTS] = tuple(tensor.name[begin:] for tensor in call.inputs)
        if brought:
            attrs[UNRECORDED] = tuple(each.tensor.rpartition(" (")[2][:-1] for each in brought)
        if name in self._stacks:
            attrs["stack"] = self._stacks[name]
        if name in self._nesting.said:
            attrs["inside"] = self._nesting.said[name]
        if name in self._micro_steps:
            attrs["micro_step"] = self._micro_steps[name]
        back = f".{call.name.way}" if call.name.before else ""
        return Op(
            id=op,
            name=name,
            type=f"{call.name.type}{back}",
            inputs=tuple(refs),
            control_inputs=tuple(controls),
            outputs=tuple(map(_plain, call.outputs)),
            attrs=attrs,
            subgraph=body,
            owns=(name,) if name in owning else (),
            sequence=at,
        )

    def _add_outputs(self, call: Call, op: str) -> None:
        """Let later calls be asked about what *call*, the op *op*, made."""
        for port, tensor in enumerate(call.outputs):
            self._made_named[tensor.name] = TensorRef(op, port)
            if tensor.key:
                self._made[tensor.key] = self._made_flat[tensor.flat] = TensorRef(op, port)
            self._unrecorded.add(tensor, TensorRef(op, port), call.name)
            if call.name.way == "backward":
                self._ways_back.add_given(
                    call.name, _place(tensor, call), TensorRef(op, port), tensor
                )

    def _input(self, tensor: CallTensor) -> InputRef:
        source = self._made_named.get(tensor.source)
        if source is not None:
            self._read.add(source.op)
            return InputRef(tensor.name, source)
        if tensor.source in self._parameters:
            return InputRef(tensor.source)
        made = self._made.get(tensor.key) if tensor.key else None
        if made is None and tensor.key in self._weights:
            return InputRef(self._weights[tensor.key])
        if made is None and tensor.key:
            made = self._made_flat.get(tensor.flat)
        if made is None:
            if tensor.key not in self._given:
                self.inputs.append(_plain(tensor))
            if tensor.key:
                self._given.add(tensor.key)
            return InputRef(tensor.name)
        self._flows += 1
        self._read.add(made.op)
        return InputRef(tensor.name, made)

    def _brought(self, call: Call, own: list[InputRef], body: str) -> Iterator[InputRef]:
        """What brought the inputs of *call* that equal no earlier output: further inputs."""
        name = call.name
        for port, (tensor, ref) in enumerate(zip(call.inputs, own, strict=True)):
            known: list[TensorRef | str] = [ref.producer or ref.tensor]
            if ref.producer is None and ref.tensor == tensor.name:
                sources = self._ways_back.sources(name, port) if name.way == "backward" else []
                sources = sources or self._unrecorded.sources(tensor, name, port)
                if not sources and name.kind == KIND:
                    sources = self._ways_back.added_up(tensor)
                sources = sources or (self._computed(name, body) if tensor.key else [])
                self._inferred += bool(sources)
                self._untold += not sources
                yield from self._joined(tensor.name, sources)
                known = [source.ref for source in sources]
            for source in known:
                self._ways_back.add_reader(source, name, _place(tensor, call))
        if name.way == "backward":
            there = self._ways_back.way_there(name)
            yield from self._joined(name.full, there)
        if name.way == "parameters_grad":
            module = name.before[0]
            for tensor in call.outputs:
                weight = tensor.name.removeprefix(f"{name.full}.").rpartition(".")[0]
                of_weight = self._ways_back.of_weight(f"{module}.parameters.{weight}")
                yield from self._joined(tensor.name, of_weight or self._inside(module, tensor))

    def _computed(self, name: CallName, body: str) -> list[Brought]:
        """Where functions are not recorded (level L0): the modules in *body* that none read yet, or
        the last of them. What *name* read or gave was computed of their outputs."""
        if self._has_functions or name.way != "forward":
            return []
        ops = [op for op in self._bodies.get(body, ()) if op.attrs.get("direction") == "forward"]
        left = [op for op in ops if op.id not in self._read | self._passed] or ops[-1:]
        how = INSIDE if name.full == body else COMPUTED
        found = [Brought(TensorRef(op.id, 0), how) for op in left if op.outputs]
        for source in found:
            self._ways_back.add_reader(source.ref, name, "")
        return found

    def _inside(self, module: str, gradient: CallTensor) -> list[Brought]:
        """The ways back inside *module*, of which one gave the *gradient* of a parameter."""
        ways = self._bodies.get(CallName.of(module).backward, ())
        given = [
            TensorRef(op.id, port)
            for op in ways
            for port, tensor in enumerate(op.outputs)
            if tensor.shape == gradient.shape
        ]
        given = given or [TensorRef(op.id, 0) for op in ways if op.outputs]
        if given:
            return [Brought(ref, GRADIENT) for ref in given]
        return self._ways_back.sources(CallName.of(CallName.of(module).backward), 0)

    def _joined(self, name: str, sources: Iterable[Brought]) -> Iterator[InputRef]:
        for source in sources:
            self._passed.add(source.ref.op)
            yield InputRef(f"{name} ({source.how})", source.ref)

    def _passed_on(self, tensor: CallTensor, owner: str) -> InputRef | None:
        """The output of a call inside *owner* that *owner* gives out as its own."""
        made = self._made.get(tensor.key) if tensor.key else None
        if made is None or not self._nesting.is_inside(made.op, owner):
            return None
        self._read.add(made.op)
        return InputRef(tensor.name, made)

    def _order(self, call: Call, body: str, *, inside: bool) -> list[str]:
        """What must have run before: the way there, and the last call *inside* this one."""
        wanted = [self._ids.get(name, "") for name in call.name.before]
        if inside:
            wanted.append(self._last.get(call.name.full, ""))
        return [each for each in dict.fromkeys(wanted) if each]


class _Nesting:
    """Which call ran inside which, of those that were dumped.

    A call is recorded when it ends. One recorded before another ended cannot have held it, so
    edges would lead back in time (the hooks of ways back fire so): it is passed over, as one
    that was not dumped is, for the next one around it. ``said`` keeps what the file says.
    """

    def __init__(self, dumped: Iterable[str], construct: Mapping[str, Any]) -> None:
        places = {name: at for at, name in enumerate(dumped)}
        self.parents: dict[str, str] = {}
        self.said: dict[str, str] = {}
        loops: list[str] = []
        missing: dict[str, None] = {}
        for name, place in places.items():
            first = parent = _parent(construct, name)
            seen = {name}
            while parent and parent not in seen and places.get(parent, -1) <= place:
                seen.add(parent)
                parent = _parent(construct, parent)
            if first:
                self.said[name] = first
            if parent in seen:
                loops.append(name)
            elif parent:
                self.parents[name] = parent
            elif first and first not in places:
                self.parents[name] = first
                missing[first] = None
        self.told = [
            *told_of(loops, "{call is nested in itself|calls are nested in themselves}"),
            *told_of(list(missing), "{call|calls} that others ran in {was|were} not dumped"),
        ]

    def is_inside(self, op: str, owner: str) -> bool:
        """Whether the op with id *op* ran inside the call *owner*, at any depth."""
        name = op.rpartition("/")[0]
        while name and name != owner:
            name = self.parents.get(name, "")
        return name == owner


def _parent(construct: Mapping[str, Any], name: str) -> str:
    """The call *name* ran in; of a way back the one of its way there, if it was recorded.

    What the file says of ways back is off where a module works in place: its hook never fires.
    """
    known = CallName.of(name)
    if known.way == "backward":
        around = CallName.of(_said(construct, known.before[0]))
        if around.way == "forward" and around.backward in construct:
            return around.backward
    return _said(construct, name)


def _said(construct: Mapping[str, Any], name: str) -> str:
    parent = construct.get(name)
    if isinstance(parent, list):  # with the number of the micro step
        parent = parent[0] if parent else None
    return parent if isinstance(parent, str) else ""


def _place(tensor: CallTensor, call: Call) -> str:
    """Where *tensor* stands among the arguments of *call*, or the gradient among theirs."""
    return tensor.name.removeprefix(f"{call.name.full}.").partition(".")[2]


def _remarks(header: Mapping[str, Any]) -> list[str]:
    """What a recording says of itself."""
    lines = header.get("remarks")
    lines = lines if isinstance(lines, list) else []
    return [kept_text(line) for line in lines if isinstance(line, str)]


def _plain(tensor: CallTensor) -> Tensor:
    return Tensor(tensor.name, tensor.dtype, tensor.shape)


def _run_otherwise(stacks: Iterable[str]) -> Iterator[str]:
    """That calls ran under what runs otherwise where nothing is dumped: their stacks say so."""
    texts = set(stacks)
    for frame, sentence in _RUN_OTHERWISE.items():
        count = sum(frame.search(text) is not None for text in texts)
        if count:
            places = "1 place" if count == 1 else f"{count} places"
            begin = "the dumped run may be another than the one that failed"
            yield f"{begin}: calls from {places} {sentence}"


def _stacks(stack: Mapping[str, Any]) -> dict[str, str]:
    """The stack of each call as text, the innermost frame first.

    Old files list frames by call; newer ones ``"0": [[calls], [frames]]`` for calls alike.
    """
    found: dict[str, str] = {}
    for key, value in stack.items():
        if not isinstance(value, list):
            continue
        calls, frames = [key], value
        if len(value) == 2 and all(isinstance(part, list) for part in value):
            calls, frames = value
        text = kept_text("\n".join(frame.strip() for frame in frames if isinstance(frame, str)))
        found.update((call, text) for call in calls if isinstance(call, str))
    return found


def _framework(files: RunFiles, calls: list[Call]) -> Framework:
    said = files.header.get("framework")
    if isinstance(said, str) and said.lower() in _FRAMEWORKS:
        return _FRAMEWORKS[said.lower()]
    kinds = {call.name.kind for call in calls}
    return Framework.MINDSPORE if kinds & {"Cell", "Mint", "Primitive"} else Framework.PYTORCH


def _name(path: Path) -> str:
    folder = path.absolute().parent
    step = folder.parent.name
    return f"{step}-{folder.name}" if "step" in step else folder.name or path.stem
