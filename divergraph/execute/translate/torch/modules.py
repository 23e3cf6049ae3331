"""Modules that slide a window, by themselves (level L0): a dump has what they read and made, but
not their settings. Those that shapes do not tell are the usual ones; golden's own output shows
whether they are the right ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

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


@row("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
     source="torch.nn.Conv2d, torch.nn.ConvTranspose2d")  # fmt: skip
def _convolution(call: TorchCall) -> Sequence[str]:
    weight, is_transposed = call.shape("parameters.weight", ""), "Transpose" in call.type
    strides, pads, output_pads = [], [], []
    for given, made, kernel in _axes(call, weight):
        large, small = (made, given) if is_transposed else (given, made)
        strides.append(max(1, round(large / max(small, 1))))
        beyond = (small - 1) * strides[-1] + kernel - large
        pads.append(max(0, -(-beyond // 2)))
        output_pads.append(max(0, 2 * pads[-1] - beyond))
    # A weight has the channels of one group where a convolution reads, or a transposed one makes.
    channels = call.recorded_sizes() if is_transposed else call.shape()
    more: dict[str, Any] = {"output_padding": output_pads} if is_transposed else {}
    return [
        call.piece.add(
            "ConvTranspose" if is_transposed else "Conv",
            call.tensor(),
            call.tensor("parameters.weight", ""),
            call.parameter("bias"),
            strides=strides,
            pads=pads * 2,
            group=max(1, channels[1] // weight[1]),
            **more,
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
