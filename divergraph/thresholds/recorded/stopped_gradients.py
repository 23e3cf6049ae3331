"""Gradients that go back on golden, and on the device do not: frozen weights, detached results, and
weights that modules share on golden alone."""

from __future__ import annotations

from divergraph.execute.translate.torch.received import texts
from divergraph.thresholds.recorded.arguments import unlike_arguments
from divergraph.thresholds.recorded.call_pairs import CallPairs
from divergraph.thresholds.recorded.cause_labels import GRADIENT
from graphstore.model import InputRef, Op
from importers.dumps.msprobe.entries import PARAMETERS_GRAD
from importers.msprobe.calls import TAKES_GRADIENT
from importers.msprobe.graph import ARGUMENTS
from importers.msprobe.job_names import RANK

_INPUT, _OUTPUT = "input.", "output"


def stopped_gradient(pairs: CallPairs, op: Op) -> tuple[str, str]:
    """The label and the sentence of the cause that a gradient of golden's stops at *op*, a way
    there; both empty where none does, or where the dumps do not say what takes gradients.

    A result takes none where gradients are computed again later (checkpoints) either, so golden's
    way back of the call must be missing, too.
    """
    twin = pairs.twin(op.id)
    if twin is None or op.attrs.get("direction") != "forward" or not pairs.says_gradients:
        return "", ""
    theirs, ours = (set(texts(call.attrs.get(TAKES_GRADIENT))) for call in (twin, op))
    if len(ours) >= len(theirs):
        return "", ""  # none is lost, though a keyword may stand for a place
    lost = theirs - ours
    places = texts(op.attrs.get(ARGUMENTS))
    is_fed_without = False
    for place in sorted(place for place in lost if place.startswith(_INPUT)):
        argument = place.removeprefix(_INPUT)
        if argument not in places:
            return GRADIENT, unlike_arguments(op, twin)
        ref = op.inputs[places.index(argument)]
        name = "" if ref is None else ref.tensor
        if name in pairs.weights:
            weight = name.partition(".parameters.")[2]
            return GRADIENT, f"its {weight} takes no gradient (is frozen), and golden's does"
        if ref is not None and (maker := _detached(pairs, op, ref)):
            return GRADIENT, (
                f"what {maker} gives takes no gradient here, and golden's does: it was detached "
                "between"
            )
        is_fed_without = True
    is_result_lost = any(place.startswith(_OUTPUT) for place in lost)
    if is_fed_without or not is_result_lost or not pairs.lacks_way_back(op.id):
        return "", ""
    return GRADIENT, (
        "its result takes no gradient, and golden's does: it was detached, or computed where no "
        "gradients are recorded"
    )


def _detached(pairs: CallPairs, op: Op, read: InputRef) -> str:
    """The name of the call that made what *op* has *read*, if that takes a gradient by itself, and
    none came back to the call; else "". Calls between that golden does not have, as ``detach`` is
    one, are gone through, but in another module: its result takes none."""
    source, around = read.producer, set(pairs.around(op.id))
    while source is not None and source.op not in pairs.twins:
        if not around.issuperset(pairs.around(source.op)):
            return ""
        refs = pairs.ops[source.op].inputs[:1]
        source = refs[0].producer if refs and refs[0] is not None else None
    if source is None or not pairs.lacks_way_back(source.op):
        return ""
    maker = pairs.ops[source.op]
    takes = texts(maker.attrs.get(TAKES_GRADIENT))
    return maker.name if f"{_OUTPUT}.{source.port}" in takes else ""


def untied_weights(pairs: CallPairs) -> dict[str, str]:
    """By gradient of parameters that golden has alike for several modules, as these share a weight,
    and the device does not: the sentence of the cause."""
    alike: dict[object, dict[str, object]] = {}
    for op in pairs.device.ops:
        if op.attrs.get("direction") != PARAMETERS_GRAD:
            continue
        for item in pairs.outputs.get(op.id, ()):
            if item.metrics is not None and item.metrics.standard_deviation[3]:
                device, golden = (item.metrics.standard_deviation[at : at + 2] for at in (0, 2))
                key = golden, item.metrics.elements, op.attrs.get(RANK)
                alike.setdefault(key, {})[op.id] = device
    return {
        op: "golden's modules share the weight whose gradient this is, and the device's do not"
        for modules in alike.values()
        if len(set(modules.values())) > 1
        for op in modules
    }
