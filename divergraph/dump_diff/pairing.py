"""Which tensor of one dump is held against which of the other, by their names.

The same name first. Then what the names tell of the op: device dumps have task, stream and
time in their names, which no second run repeats. Each rule takes what is clear and leaves
the rest to the next; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from importers.dumps.bare.index import BareTensor

_Key = Callable[[BareTensor], Hashable]


@dataclass(frozen=True, slots=True)
class NamedPair:
    """Two tensors found to be the same one of a model, under the name they are shown by."""

    name: str
    device: BareTensor
    golden: BareTensor


@dataclass(frozen=True, slots=True)
class NamePairing:
    """Pairs in the device dump's order; what is left over on each side; and earlier dumps
    of a tensor that has a later one."""

    pairs: tuple[NamedPair, ...]
    device_only: tuple[BareTensor, ...]
    golden_only: tuple[BareTensor, ...]
    superseded: int = 0


def pair_by_name(device: Sequence[BareTensor], golden: Sequence[BareTensor]) -> NamePairing:
    """Pair the tensors of two dumps. A tensor dumped as often on both sides is paired
    in order of time, of one dumped more often on one side the last counts. One tensor
    against one is a pair under any names."""
    unpaired = _Left(device, golden)
    unpaired.take(attrgetter("name"))
    unpaired.take_names()
    for key in _IN_ONE_PLACE:
        unpaired.take(key)
    for key in _ANYWHERE:
        unpaired.take(key, single=True)
    pairing = unpaired.result()
    if not pairing.pairs and len(device) == len(golden) == 1:  # whatever they are called
        name = f"{device[0].name} | {golden[0].name}"
        return NamePairing((NamedPair(name, device[0], golden[0]),), (), ())
    return pairing


def _name_key(*facts: str) -> _Key:
    """What the name of a tensor tells of these."""
    return attrgetter(*(f"identity.{fact}" for fact in facts))


_IN_ONE_PLACE = (attrgetter("identity"), _name_key("scope", "op", "io", "port", "part"))
_ANYWHERE = (_name_key("type", "op", "io", "port", "part"), _name_key("op", "io", "port", "part"))


def _called(tensor: BareTensor) -> Hashable:
    """What its model calls a tensor; nothing else has the key of one without a name."""
    return tensor.model_name or id(tensor)


def _called_there(tensor: BareTensor) -> Hashable:
    return (tensor.identity.scope, tensor.model_name) if tensor.model_name else id(tensor)


class _Left:
    """The tensors not yet paired, and the pairs."""

    def __init__(self, device: Sequence[BareTensor], golden: Sequence[BareTensor]) -> None:
        self._place = {id(tensor): place for place, tensor in enumerate(device)}
        self._device = list(device)
        self._golden = list(golden)
        self._pairs: list[NamedPair] = []
        self._superseded = 0
        self._apart: set[int] = set()

    def take(self, key: _Key, *, single: bool = False) -> None:
        """Pair what has the same *key* on both sides; *single*: only where one each has it."""
        if not self._device or not self._golden:
            return
        golden = _grouped(self._unnamed(self._golden), key)
        gone: set[int] = set()
        for key_value, ours in _grouped(self._unnamed(self._device), key).items():
            theirs = golden.get(key_value)
            if theirs is None or (single and (len(ours) > 1 or len(theirs) > 1)):
                continue
            both = (*ours, *theirs)
            last = len(ours) != len(theirs)
            if last and not all(tensor.timestamp for tensor in both):
                continue
            gone.update(map(id, both))
            if last:
                self._superseded += len(both) - 2
                self._pairs.append(
                    NamedPair(_common_name(ours[-1], theirs[-1]), ours[-1], theirs[-1])
                )
                continue
            for number, (one, other) in enumerate(zip(ours, theirs, strict=True), 1):
                name = _common_name(one, other) + (f" #{number}" if len(ours) > 1 else "")
                self._pairs.append(NamedPair(name, one, other))
        self._device = [tensor for tensor in self._device if id(tensor) not in gone]
        self._golden = [tensor for tensor in self._golden if id(tensor) not in gone]

    def take_names(self) -> None:
        """Pair what the model calls the same. Where anything is, what it calls otherwise is no
        pair: an op may be called as the tensor of another."""
        before = len(self._pairs)
        self.take(_called_there)
        self.take(_called, single=True)
        if len(self._pairs) > before:
            both = (*self._device, *self._golden)
            self._apart = {id(tensor) for tensor in both if tensor.model_name}

    def _unnamed(self, tensors: list[BareTensor]) -> Iterable[BareTensor]:
        """Those whose names in the model do not say which they are."""
        return (tensor for tensor in tensors if id(tensor) not in self._apart)

    def result(self) -> NamePairing:
        """What came of it."""
        self._pairs.sort(key=lambda pair: self._place[id(pair.device)])
        return NamePairing(
            tuple(self._pairs), tuple(self._device), tuple(self._golden), self._superseded
        )


def _grouped(tensors: Iterable[BareTensor], key: _Key) -> dict[Hashable, list[BareTensor]]:
    """The tensors by key, each group in order of time."""
    groups: dict[Hashable, list[BareTensor]] = {}
    for tensor in tensors:
        groups.setdefault(key(tensor), []).append(tensor)
    for group in groups.values():
        if len(group) > 1:
            group.sort(key=lambda tensor: (tensor.timestamp, tensor.name))
    return groups


def _common_name(device: BareTensor, golden: BareTensor) -> str:
    """One name for both: the name itself if they share it, else what the names tell."""
    if device.name == golden.name:
        return device.name
    identity = device.identity if device.identity.type else golden.identity
    parts = [identity.type, identity.op, identity.io.value, str(identity.port), identity.part]
    return ".".join(filter(None, parts))
