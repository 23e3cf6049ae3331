"""Dump training steps of small PyTorch models with msprobe, right ones and faulty ones.

    python benchmarks/torch_jobs/make.py FOLDER [--task tensor] [--level mix] [--seed 5] [MODEL...]

Needs torch and mindstudio-probe; nothing else of this benchmark does. Of each model in
``models.py``: ``golden`` in float32, ``bf16``, ``fp16`` and ``amp`` (parameters in float32, calls
cast by autocast), and one for each fault, in bfloat16. A folder is called
``MODEL-NAME-CALL-FAULT``; the fault sits in that call of its kind, below what msprobe wraps: so its
inputs are right and its output is wrong. ``missing`` takes the call out, and ``weight`` faults sit
in a module's weight.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
from torch.nn import functional

from benchmarks.torch_jobs.models import MODELS

Tensor = torch.Tensor
TYPES = {"golden": torch.float32, "amp": torch.float32, "fp16": torch.float16}
HEALTHY = ("golden", "bf16", "fp16", "amp")


def of_last(made: Tensor, at: int, factor: float) -> Tensor:
    """One channel of the last axis times a factor."""
    scale = torch.ones_like(made)
    scale[..., at] = factor
    return made * scale


def with_nan(made: Tensor) -> Tensor:
    """One NaN."""
    spoilt = torch.zeros_like(made)
    spoilt.view(-1)[3] = float("nan")
    return made + spoilt


SPOILT: dict[str, Callable[[Tensor], Tensor]] = {
    "scale": lambda made: made * 1.25,
    "negate": lambda made: -made,
    "shift": lambda made: torch.roll(made, 1, -1),
    "channel": lambda made: of_last(made, 2, 1.3),
    "lost_channel": lambda made: of_last(made, -1, 0.0),
    "nan": with_nan,
}
FAULTS = {
    "conv": ["conv2d 1 channel", "conv2d 1 no_bias", "conv2d 1 shift", "batch_norm 0 scale",
             "group_norm 0 scale", "relu 0 negate", "gelu 0 scale", "max_pool2d 0 shift",
             "interpolate 0 shift", "linear 0 lost_channel", "cross_entropy 0 scale"],
    "encoder": ["linear 1 no_bias", "linear 3 lost_channel", "linear 2 shift", "linear 4 channel",
                "softmax 1 scale", "softmax 0 shift", "layer_norm 1 scale", "layer_norm 2 channel",
                "gelu 1 negate", "embedding 0 shift", "linear 1 nan"],
    "experts": ["silu 0 scale", "silu 0 negate", "linear 1 scale", "embedding 0 lost_channel",
                "linear 1 nan", "cross_entropy 0 scale"],
    "denoiser": ["conv2d 1 channel", "conv2d 1 no_bias", "group_norm 0 scale", "silu 1 negate",
                 "scaled_dot_product_attention 0 shift", "linear 1 no_bias", "mse_loss 0 scale",
                 "scaled_dot_product_attention 0 lost_channel", "conv2d 2 shift"],
    "gpt": ["rms_norm 1 eps", "softmax 0 dim", "silu 0 missing", "linear 3 half",
            "weight 4 stale", "masked_fill 0 shift", "linear 9 scale"],
    "vit": ["layer_norm 1 eps", "conv2d 0 lost_channel", "gelu 1 scale", "weight 2 stale",
            "linear 2 half", "layer_norm 0 dim", "tanh 0 scale"],
    "unet": ["instance_norm 0 eps", "interpolate 0 shift", "elu 0 scale", "pad 0 shift",
             "leaky_relu 0 negate", "hardswish 0 missing", "group_norm 0 channel"],
    "speech": ["conv1d 0 no_bias", "glu 0 shift", "prelu 0 scale", "gru 0 scale", "clamp 0 missing",
               "normalize 0 eps", "weight 3 stale"],
    "vae": ["conv_transpose2d 0 channel", "mish 0 scale", "softplus 0 negate", "relu6 0 missing",
            "linear 1 half", "binary_cross_entropy 0 scale"],
    "clip": ["normalize 0 scale", "layer_norm 0 eps", "embedding 0 shift", "weight 1 stale",
             "multi_head_attention_forward 0 scale"],
    "routed": ["gelu 1 negate", "layer_norm 0 eps", "softmax 0 scale", "linear 2 no_bias",
               "sum 0 scale"],
}  # fmt: skip


def every_channel(*given: Any, **_: Any) -> Tensor:
    """A linear call whose sum is rounded to 16 bits after four products."""
    value, weight, *bias = given
    made = torch.zeros((), dtype=value.dtype)
    for at in range(0, weight.shape[1], 4):
        made = made + value[..., at : at + 4] @ weight[:, at : at + 4].T
    return made if not bias or bias[0] is None else made + bias[0]


def owners(name: str) -> list[Any]:
    """Where PyTorch has the function *name*: what a model calls may be any of them."""
    return [space for space in (functional, torch, Tensor) if hasattr(space, name)]


def wrong(plain: Callable[..., Any], fault: str, given: tuple[Any, ...], options: Any) -> Any:
    """What a faulty call gives in place of ``plain(*given, **options)``."""
    if fault == "missing":
        return given[0]
    if fault == "half":
        return every_channel(*given, **options)
    if fault == "no_bias":
        return plain(given[0], given[1], None, *given[3:], **options)
    if fault == "eps":
        if "eps" in options:
            return plain(*given, **{**options, "eps": 0.3})
        if plain.__name__ == "rms_norm":  # whose epsilon may be None
            return plain(*given[:3], 0.3)
        return plain(*(0.3 if type(each) is float and each < 1e-3 else each for each in given))
    if fault == "dim" and given[0].dim() > 2:
        turned = given[0].transpose(-2, -1)
        if plain.__name__ == "layer_norm":
            turned = given[0].flip(-2).roll(1, -1)
        return plain(turned, *given[1:], **options).transpose(-2, -1).reshape(given[0].shape) if (
            plain.__name__ == "softmax") else plain(turned, *given[1:], **options)  # fmt: skip
    made = plain(*given, **options)
    if isinstance(made, tuple):
        return (SPOILT[fault](made[0]), *made[1:])
    return SPOILT[fault](made)


def spoil(name: str, at: int, fault: str) -> Callable[[], bool]:
    """Make call *at* of a function wrong. The result says later whether that call came, and gave
    something else."""
    count, changed, inside = iter(range(1 << 30)), list[bool](), list[bool]()

    def spoilt(plain: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **options: Any) -> Any:
            if inside or next(count) != at:  # a function may call the method of its name
                inside.append(True)
                made = plain(*given, **options)
                inside.pop()
                return made
            inside.append(True)
            right, made = plain(*given, **options), wrong(plain, fault, given, options)
            inside.pop()
            # Bytes of their memory: every call of a function would be recorded.
            pair = [(x[0] if isinstance(x, tuple) else x).untyped_storage() for x in (right, made)]
            changed.append(bytes(pair[0]) != bytes(pair[1]))
            return made

        called.__name__ = name
        return called

    for space in owners(name):
        setattr(space, name, spoilt(getattr(space, name)))
    return lambda: any(changed)


def optimizer_of(kind: str, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    """AdamW, or of some models SGD with momentum, or RMSprop."""
    if kind in ("unet", "clip"):
        return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-3, foreach=False)
    if kind == "speech":
        return torch.optim.RMSprop(parameters, lr=1e-3, foreach=False)
    return torch.optim.AdamW(parameters, lr=3e-3, eps=1e-5, foreach=False)


def loss_of(made: Tensor, wanted: Tensor, kind: str) -> Tensor:
    """The loss of the kind of *wanted*."""
    if kind == "vae":
        return functional.binary_cross_entropy(made, wanted)
    if wanted.is_floating_point():
        return functional.mse_loss(made, wanted)
    return functional.cross_entropy(made.flatten(0, -2), wanted.flatten())


def step(folder: Path, kind: str, name: str, options: argparse.Namespace) -> None:
    """One dumped training step."""
    from msprobe.pytorch import PrecisionDebugger

    spoilt: Callable[[], bool] = lambda: True  # noqa: E731 - until it is spoilt
    target, _, rest = name.partition(" ")
    at, _, fault = rest.partition(" ")
    if fault and target != "weight" and fault != "missing":
        spoilt = spoil(target, int(at), fault)
    dtype = TYPES.get(name, torch.bfloat16)
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    model = MODELS[kind]().to(dtype)
    if target == "weight":
        matrices = [each for each in model.parameters() if each.dim() > 1]
        with torch.no_grad():
            matrices[int(at)].add_(torch.randn_like(matrices[int(at)]) * matrices[int(at)].std())
    optimizer = optimizer_of(kind, model.parameters())
    inputs, wanted = model.data(torch.Generator().manual_seed(options.seed + 1))
    inputs = [value.to(dtype) if value.is_floating_point() else value for value in inputs]
    folder.mkdir(parents=True)
    parts: dict[str, Any] = {"scope": [], "list": [], "data_mode": ["all"]}
    if options.task == "statistics":
        parts["summary_mode"] = "statistics"
    config = {"task": options.task, "dump_path": str(folder), "rank": [], "step": [],
              "level": options.level, "is_deterministic": True, options.task: parts}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    debugger = PrecisionDebugger(config_path=str(folder / "config.json"))
    debugger.start(model=model)
    if fault == "missing":
        spoilt = spoil(target, int(at), fault)
    with torch.autocast("cpu", torch.bfloat16, enabled=name == "amp"):
        made = model(*inputs)
    loss = loss_of(made.float(), wanted, kind) + getattr(model, "cost", 0.0)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    debugger.stop()
    if not spoilt():
        raise ValueError(f"{kind} does not come by {name}, or it changes nothing")


def in_processes(step: Callable[[Path, str, str], None], jobs: Iterable[tuple[Path, str]]) -> None:
    """Run *step* for a folder, a model and a name of each of *jobs* (a model's folder without its
    end, and the name), each in a process of its own after the slow imports, if it is not there."""
    for begin, name in jobs:
        folder = begin.with_name(f"{begin.name}-{name.replace(' ', '-')}")
        if folder.exists():
            continue
        child = os.fork()
        if not child:
            try:
                step(folder, begin.name, name)
            except BaseException as error:  # noqa: BLE001 - the child must not run on
                print(f"{folder}: {error!r}"[:200])
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(folder, "made" if status == 0 else "not made", flush=True)


def main() -> None:
    """Make all jobs."""
    from msprobe.pytorch import PrecisionDebugger  # noqa: F401 - imported once, before the forks

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--task", default="tensor", choices=("tensor", "statistics"))
    parser.add_argument("--level", default="mix", choices=("L0", "L1", "mix"))
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("models", nargs="*", default=[])
    options = parser.parse_intermixed_args()
    kinds = options.models or MODELS
    names = ((options.folder / kind, name) for kind in kinds for name in (*HEALTHY, *FAULTS[kind]))
    in_processes(lambda folder, kind, name: step(folder, kind, name, options), names)


if __name__ == "__main__":
    main()
