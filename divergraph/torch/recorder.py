"""Record the calls of a block: functions through a function mode, modules through their hooks."""

from __future__ import annotations

import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from divergraph.torch.call_names import function_name, stack_of_caller
from divergraph.torch.gradients import Edge, edges_of, watch
from divergraph.torch.step_files import StepFiles, leaves
from graphstore.errors import InputError

_UNRECORDED = frozenset(
    "Tensor.requires_grad_ Tensor.backward Tensor.register_hook Tensor.__setstate__".split()
)
"""Calls that compute nothing: they set how autograd sees a tensor."""
_OF_NOTHING = re.compile(
    r"\w+\.(new_\w+|\w+_like|(fill|zero|uniform|normal|log_normal|random|bernoulli|exponential|"
    r"cauchy|geometric)_)"
)
"""Calls that take a tensor's shape or place and none of its values, which may be no values yet."""
_WRAPPERS = ("_orig_mod.",)
"""Parts of a module's path that only compiled models have."""
_INDEXING = ("Tensor.__getitem__", "Tensor.__setitem__")


@contextmanager
def recording(folder: str | PathLike[str], model: Any) -> Iterator[Recording]:
    """Record the block; what is given has ``step()``.

    Raises:
        InputError: the folder cannot be written, or *model* is no module.
    """
    if model is not None and not isinstance(model, torch.nn.Module):
        raise InputError("model is no torch.nn.Module", where=type(model).__name__)
    record = Recording(Path(folder), model)
    with ExitStack() as opened:
        opened.callback(record.close)
        opened.enter_context(_nothing_compiled(record))
        opened.enter_context(record.hooks())
        opened.enter_context(record.mode)
        yield record
        record.finish()


class Recording:
    """What is being recorded; ``steps`` is how many steps are whole, ``tensors`` and ``bytes`` how
    many different ones they have, and their size."""

    def __init__(self, folder: Path, model: torch.nn.Module | None) -> None:
        self.steps = self.tensors = self.bytes = 0
        self.mode = _Calls(self)
        self._folder = folder
        self._model = model
        self._modules: dict[int, torch.nn.Module] = {}
        self._remarks: dict[str, None] = {}
        # The gradients on another device come from a thread of their own.
        self._lock = threading.RLock()
        self._step = _Step(StepFiles(self._place()))

    def step(self) -> None:
        """End a step: what follows is recorded as the next."""
        with self._lock:
            self.finish()
            self._step = _Step(StepFiles(self._place()))

    def finish(self) -> None:
        """Let the step that was recorded appear."""
        with self._lock, torch._C.DisableTorchFunction():
            step = self._step
            step.is_open = False
            for each in step.unfinished:
                each()
            step.files.finish(self._header())
            self.steps += 1
            self.tensors += step.files.tensors
            self.bytes += step.files.bytes

    def close(self) -> None:
        """Record no more; a step that is not whole goes away."""
        self._step.is_open = False
        self._step.files.discard()

    def remark_compiled(self, what: str) -> None:
        """Remember that *what* was compiled and ran as written."""
        self._remarks[
            f"the dumped run is not the compiled one: {what} is compiled by torch.compile and ran "
            "as it is written, so what the compiler fuses and changes is not in the dump"
        ] = None

    # functions

    def called(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call *function*, and record that it was."""
        name = function_name(function)
        inputs = leaves((args, kwargs))
        step = self._step
        if not inputs or not step.is_open or not is_recorded(name):
            return function(*args, **kwargs)
        frames, is_compiled = stack_of_caller()
        if is_compiled:
            self.remark_compiled(frames[0].partition(",")[0] if frames else "a function")
        with self._lock, torch._C.DisableTorchFunction():
            call = step.begin(name)
            entry: dict[str, Any] = {}
            edges = edges_of(_placed(args, kwargs)) if torch.is_grad_enabled() else {}
            is_indexing = name in _INDEXING
            entry["input_args"] = [
                step.leaf(f"{call}.input.{at}", _index(value) if is_indexing and at == 1 else value)
                for at, value in enumerate(args)
            ]
            entry["input_kwargs"] = {
                key: step.leaf(f"{call}.input.{key}", value) for key, value in kwargs.items()
            }
            versions = [_version(tensor) for tensor in inputs]
        made = function(*args, **kwargs)
        with self._lock, torch._C.DisableTorchFunction():
            outputs = leaves(made)
            changed = [
                tensor
                for tensor, version in zip(inputs, versions, strict=True)
                if _version(tensor) != version
            ]
            if not outputs:  # in place, as `x[0] = 1` and calls of lists of tensors are
                outputs = changed
            if not outputs:
                step.forget(call)
                return made
            entry["output"] = step.outputs(call, outputs)
            step.end(call, entry, frames)
            if edges or any(tensor.requires_grad for tensor in outputs):
                self._watch(call, edges, outputs, by_node=True)
        return made

    def _watch(
        self,
        call: str,
        edges: Mapping[str, Edge],
        outputs: Sequence[torch.Tensor],
        *,
        by_node: bool,
    ) -> None:
        if not torch.is_grad_enabled():
            return
        step = self._step
        back = f"{call.removesuffix('forward')}backward"
        if ".forward." in call:
            head, _, number = call.rpartition(".forward.")
            back = f"{head}.backward.{number}"

        def save(
            by_outputs: Sequence[torch.Tensor | None], by_inputs: Mapping[str, torch.Tensor]
        ) -> None:
            with self._lock, torch._C.DisableTorchFunction():
                step.save_gradients(back, by_outputs, by_inputs)

        finish = watch(edges, outputs, save, by_node=by_node)
        if finish is not None:
            step.unfinished.append(finish)

    # modules

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """The hooks of modules and parameters, for the block; without a model, of those that are
        called in it."""
        with ExitStack() as opened:

            def add(root: torch.nn.Module) -> None:
                for path, module in _named_modules(root):
                    self._modules[id(module)] = module
                    if type(module).__name__ == "OptimizedModule":
                        self.remark_compiled("the model")
                    for hook in self._hooks_of(path, module):
                        opened.callback(hook.remove)

            def meet(module: torch.nn.Module) -> None:
                if id(module) not in self._modules:
                    add(module)

            if self._model is not None:
                add(self._model)
            else:
                # Called from `__call__` itself, before it looks for hooks of the module.
                opened.enter_context(_calls_of_modules(meet))
            yield

    def _hooks_of(self, path: str, module: torch.nn.Module) -> Iterator[Any]:
        name = (
            f"Module.{path}.{type(module).__name__}" if path else f"Module.{type(module).__name__}"
        )
        begun: list[tuple[str, dict[str, Any], dict[str, Edge], _Step]] = []

        def before(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            step = self._step
            with self._lock, torch._C.DisableTorchFunction():
                call = step.begin(name, is_module=True)
                entry: dict[str, Any] = {
                    "input_args": step.leaf(f"{call}.input", list(args)),
                    "input_kwargs": step.leaf(f"{call}.input", kwargs),
                    "parameters": step.parameters(call, module),
                }
                edges = edges_of(_placed(args, kwargs)) if torch.is_grad_enabled() else {}
                begun.append((call, entry, edges, step))

        def after(_: Any, _args: Any, _kwargs: Any, made: Any) -> None:
            call, entry, edges, step = begun.pop()
            if step is not self._step or not step.is_open:
                return
            frames, _ = stack_of_caller()
            with self._lock, torch._C.DisableTorchFunction():
                outputs = leaves(made)
                entry["output"] = step.outputs(call, outputs)
                step.end(call, entry, frames)
                self._watch(call, edges, outputs, by_node=False)

        yield module.register_forward_pre_hook(before, prepend=True, with_kwargs=True)
        yield module.register_forward_hook(after, with_kwargs=True)
        for key, parameter in module.named_parameters(recurse=False):
            if parameter.requires_grad and parameter.is_leaf:
                yield parameter.register_post_accumulate_grad_hook(self._accumulated(name, key))

    def _accumulated(self, name: str, key: str) -> Callable[[torch.Tensor], None]:
        def accumulated(parameter: torch.Tensor) -> None:
            with self._lock, torch._C.DisableTorchFunction():
                if self._step.is_open and parameter.grad is not None:
                    self._step.save_parameter(name, key, parameter.grad)

        return accumulated

    # files

    def _place(self) -> Path:
        is_spread = torch.distributed.is_available() and torch.distributed.is_initialized()
        rank = torch.distributed.get_rank() if is_spread else 0
        steps = (self._folder / f"step{at}" / f"rank{rank}" for at in range(1 << 30))
        return next(place for place in steps if not place.exists())

    def _header(self) -> dict[str, Any]:
        return {
            "recorder": "divergraph",
            "torch": torch.__version__,
            "seed": str(torch.initial_seed()),
            "deterministic": str(torch.are_deterministic_algorithms_enabled()),
            "remarks": list(self._remarks),
        }


def is_recorded(name: str) -> bool:
    """Whether calls of this name compute something of their tensors."""
    return bool(name) and name not in _UNRECORDED and not _OF_NOTHING.fullmatch(name)


class _Calls(TorchFunctionMode):  # type: ignore[misc]
    """Hands every call of PyTorch on to the recording."""

    def __init__(self, record: Recording) -> None:
        super().__init__()
        self._record = record

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is torch.Tensor.backward:
            # What runs on the way back (recomputed calls, functions of the user) is recorded, too.
            with self:
                return _backward(*args, **(kwargs or {}))
        if func is torch.nn.functional.multi_head_attention_forward:
            # Its products and the softmax are calls of their own: it need only not be handed to us.
            with self, _not_handed_on():
                return func(*args, **(kwargs or {}))
        return self._record.called(func, args, kwargs or {})


@contextmanager
def _not_handed_on() -> Iterator[None]:
    """Functions written in Python run as they are written, and the calls inside are handed on."""
    module = torch.nn.functional
    plain = module.has_torch_function
    module.has_torch_function = lambda _: False
    try:
        yield
    finally:
        module.has_torch_function = plain


def _backward(
    tensor: torch.Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    torch.autograd.backward(tensor, gradient, retain_graph, create_graph, inputs=inputs)


class _Step:
    """The calls of one step; ``unfinished`` save what gradients went by when it ends."""

    def __init__(self, files: StepFiles) -> None:
        self.files = files
        self.is_open = True
        self.unfinished: list[Callable[[], None]] = []
        self._numbers: Counter[str] = Counter()
        self._around: list[str] = []
        self._sources = WeakIdKeyDictionary()

    def begin(self, name: str, *, is_module: bool = False) -> str:
        """The name of the next call of a kind, which runs in the one that was begun last."""
        number = self._numbers[name]
        self._numbers[name] += 1
        call = f"{name}.forward.{number}" if is_module else f"{name}.{number}.forward"
        self.files.construct[call] = self._around[-1] if self._around else None
        if is_module:
            self._around.append(call)
        return call

    def forget(self, call: str) -> None:
        """Take back :meth:`begin` of a function that made nothing."""
        del self.files.construct[call]
        self._numbers[call.rpartition(".")[0].rpartition(".")[0]] -= 1

    def end(self, call: str, entry: dict[str, Any], frames: tuple[str, ...]) -> None:
        """Write down a call that is over."""
        if call in self._around:  # those inside that an exception ended have no end of their own
            del self._around[self._around.index(call) :]
        self.files.calls[call] = entry
        self.files.stacks.setdefault(frames, []).append(call)

    def outputs(self, call: str, tensors: Sequence[torch.Tensor]) -> list[Any]:
        """The entries of what a call made."""
        entries = []
        for at, tensor in enumerate(tensors):
            name = f"{call}.output.{at}"
            entry = self.files.tensor(name, tensor)
            # A module gives out what a call inside made.
            if not (".forward." in call and self._source(tensor)):
                self._sources[tensor] = name, _version(tensor)
            entries.append(entry)
        return entries

    def parameters(self, call: str, module: torch.nn.Module) -> dict[str, Any]:
        """The entries of a module's own parameters."""
        entries = {}
        for key, value in module.named_parameters(recurse=False):
            name = f"{call}.parameters.{key}"
            entries[key] = self.files.tensor(name, value)
            if not self._source(value):
                self._sources[value] = name, _version(value)
        return entries

    def leaf(self, name: str, value: Any) -> Any:
        """*value*, an argument, as ``dump.json`` has it."""
        if isinstance(value, torch.Tensor):
            entry, source = self.files.tensor(name, value), self._source(value)
            return {**entry, "source": source} if source else entry
        if value is None:
            return None
        if isinstance(value, Mapping):
            return {str(key): self.leaf(f"{name}.{key}", inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.leaf(f"{name}.{at}", inner) for at, inner in enumerate(value)]
        if isinstance(value, bool | int | float | str):
            return {"type": type(value).__name__, "value": value}
        return {"type": type(value).__name__, "value": str(value)}

    def _source(self, tensor: torch.Tensor) -> str:
        """The output that *tensor* is; empty if no call made it, or it was changed since."""
        name, version = self._sources.get(tensor, ("", 0))
        return name if version == _version(tensor) else ""

    def save_gradients(
        self,
        call: str,
        by_outputs: Sequence[torch.Tensor | None],
        by_inputs: Mapping[str, torch.Tensor],
    ) -> None:
        """Write down a way back."""
        self.files.calls[call] = {
            "input": [self._gradient(f"{call}.input.{at}", g) for at, g in enumerate(by_outputs)],
            "output": {
                place: self._gradient(f"{call}.output.{place}", gradient)
                for place, gradient in sorted(by_inputs.items())
            },
        }

    def _gradient(self, name: str, value: torch.Tensor | None) -> Any:
        return None if value is None else self.files.tensor(name, value)

    def save_parameter(self, name: str, key: str, gradient: torch.Tensor) -> None:
        """Write down the gradient by a parameter, of all that was accumulated."""
        call = f"{name}.parameters_grad.0"
        # Behind the ways back that it is the sum of, and before the optimizer, which reads it.
        known = self.files.calls.pop(call, {})
        self.files.calls[call] = {**known, key: [self.files.tensor(f"{call}.{key}", gradient)]}


@contextmanager
def _nothing_compiled(record: Recording) -> Iterator[None]:
    """Compiled code runs as it is written: inside of what a compiler made nothing can be seen."""
    plain = torch.compile

    def passed_over(model: Any = None, **_: Any) -> Any:
        record.remark_compiled("what the block compiles")
        return (lambda inner: inner) if model is None else model

    torch.compile = passed_over
    try:
        # Whoever compiled something has loaded the compiler; it is large.
        is_loaded = "torch._dynamo" in sys.modules
        with torch.compiler.set_stance("force_eager") if is_loaded else nullcontext():
            yield
    finally:
        torch.compile = plain


@contextmanager
def _calls_of_modules(meet: Callable[[torch.nn.Module], None]) -> Iterator[None]:
    """*meet* is called with every module that is called, before its own hooks are looked for."""
    plain = torch.nn.Module.__call__

    def called(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        meet(module)
        return plain(module, *args, **kwargs)

    torch.nn.Module.__call__ = called
    try:
        yield
    finally:
        torch.nn.Module.__call__ = plain


def _named_modules(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    for path, module in model.named_modules():
        plain = f"{path}."
        for wrapper in _WRAPPERS:
            plain = plain.replace(wrapper, "")
        yield plain.rstrip("."), module


def _placed(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors among arguments, by place: ``0``, ``1.2`` of a list, ``weight``."""
    found = {}
    stack = [*((str(at), value) for at, value in enumerate(args)), *kwargs.items()]
    for place, value in stack:
        if isinstance(value, torch.Tensor):
            found[place] = value
        elif isinstance(value, list | tuple):
            stack.extend((f"{place}.{at}", inner) for at, inner in enumerate(value))
    return found


def _version(tensor: torch.Tensor) -> int:
    """How often a tensor was changed in place; those of inference mode do not count."""
    return 0 if tensor.is_inference() else int(tensor._version)


def _index(value: Any) -> Any:
    """What stands between brackets, as text where it has no tensor."""
    parts = value if isinstance(value, tuple) else (value,)
    if leaves(parts) or isinstance(value, int):
        return value
    return ", ".join(map(_index_text, parts))


def _index_text(part: Any) -> str:
    if isinstance(part, slice):
        ends = "" if part.start is None else part.start, "" if part.stop is None else part.stop
        return f"{ends[0]}:{ends[1]}" + (f":{part.step}" if part.step is not None else "")
    return "..." if part is Ellipsis else str(part)
