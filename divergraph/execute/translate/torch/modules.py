"""Modules that slide a window, by themselves (level L0): a dump has what they read and made, but
not their settings. Those that shapes do not tell are the usual ones; golden's own output shows
whether they are the right ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from divergraph.execute.translate.torch.call import TorchCall, row
from divergraph.execute.translate.torch.windows import BEGIN, need_batch


class _Sizes(NamedTuple):
    """Along one axis: of the input, the output and the kernel."""

    given: int
    made: int
    kernel: int


def _axes(call: TorchCall, weight: Sequence[int]) -> Iterator[_Sizes]:
    need_batch(call, int(call.type[-2]))
    made = call.recorded_sizes()
    if len(made) != len(call.shape()):
        raise call.refused("makes another number of axes")
    along = zip(call.shape()[BEGIN:], made[BEGIN:], weight[BEGIN:], strict=True)
    yield from (_Sizes(*sizes) for sizes in along)


@row("Conv1d", "Conv2d", "Conv3d", source="torch.nn.Conv2d")
def _conv(call: TorchCall) -> Sequence[str]:
    weight = call.shape("parameters.weight", "")
    strides, pads = [], []
    for given, made, kernel in _axes(call, weight):
        strides.append(max(1, round(given / max(made, 1))))
        pads.append(max(0, -(-((made - 1) * strides[-1] + kernel - given) // 2)))
    return [
        call.piece.add(
            "Conv",
            call.tensor(),
            call.tensor("parameters.weight", ""),
            call.parameter("bias"),
            strides=strides,
            pads=pads * 2,
            group=max(1, call.shape()[1] // weight[1]),
        )
    ]


@row("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", source="torch.nn.ConvTranspose2d")
def _transposed(call: TorchCall) -> Sequence[str]:
    weight = call.shape("parameters.weight", "")
    strides, pads, more = [], [], []
    for given, made, kernel in _axes(call, weight):
        strides.append(max(1, round(made / max(given, 1))))
        beyond = (given - 1) * strides[-1] + kernel - made
        pads.append(max(0, -(-beyond // 2)))
        more.append(max(0, 2 * pads[-1] - beyond))
    return [
        call.piece.add(
            "ConvTranspose",
            call.tensor(),
            call.tensor("parameters.weight", ""),
            call.parameter("bias"),
            strides=strides,
            pads=pads * 2,
            output_padding=more,
            group=max(1, call.recorded_sizes()[1] // weight[1]),
        )
    ]


@row("MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
     source="torch.nn.MaxPool2d")  # fmt: skip
def _pool(call: TorchCall) -> Sequence[str]:
    # Windows side by side, as most are.
    steps = [max(1, given // max(made, 1)) for given, made, _ in _axes(call, call.shape())]
    kind = "MaxPool" if call.type.startswith("Max") else "AveragePool"
    outputs = 2 if kind == "MaxPool" else 1  # its way back needs the places of the largest
    return call.piece.add_many(kind, outputs, call.tensor(), kernel_shape=steps, strides=steps)[:1]
