"""Record training steps of published architectures, right ones and faulty ones.

    python benchmarks/torch_jobs/published.py FOLDER [--seed 3] [MODEL...]
    python benchmarks/torch_jobs/run.py FOLDER

Needs torch and transformers, whose models these are, in small sizes; the recorder is
``divergraph.torch``. Of each model ``golden`` in float32, ``bf16`` and ``fp16``, and one in
bfloat16 for each fault that comes by and changes something. A folder is called
``MODEL-FUNCTION-NUMBER-FAULT``: the fault sits in that call of the function, below the recorder.
``MODEL-setting-0-NAME`` is set up or called otherwise, with all calls right.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
import transformers
from torch.overrides import TorchFunctionMode

import divergraph.torch
from benchmarks.torch_jobs.make import in_processes
from divergraph.torch.call_names import function_name

Tensor = torch.Tensor
WORDS, CLASSES = 96, 7
TYPES = {"golden": torch.float32, "fp16": torch.float16}
HEALTHY = ("golden", "bf16", "fp16")
_VISIBLE = 0.01
"""The least error of a faulty call, relative to what it gives: bfloat16 hides less."""

_TEXT = {
    "vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
_QUERIES = {**_TEXT, "num_key_value_heads": 2, "head_dim": 8}
_PICTURE = {"hidden_sizes": [8, 16, 24, 32], "num_labels": CLASSES}
_DROPOUTS = (
    "hidden_dropout attention_probs_dropout classifier_dropout attention_dropout "
    "activation_dropout feat_proj_dropout final_dropout"
).split()
_NO_DROPOUT = {f"{name}{end}": 0.0 for name in _DROPOUTS for end in ("", "_prob")}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", _QUERIES),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", _QUERIES),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", {**_QUERIES, "sliding_window": 8}),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM", {**_QUERIES, "num_local_experts": 4}),
    "gptoss": (
        "GptOssConfig", "GptOssForCausalLM",
        {**_QUERIES, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8},
    ),
    "neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", _TEXT),
    "phi": ("PhiConfig", "PhiForCausalLM", _TEXT),
    "mamba": ("MambaConfig", "MambaForCausalLM", {**_TEXT, "hidden_size": 24, "state_size": 4}),
    "bert": ("BertConfig", "BertForMaskedLM", {**_TEXT, **_NO_DROPOUT}),
    "deberta": (
        "DebertaV2Config", "DebertaV2ForMaskedLM",
        {**_TEXT, **_NO_DROPOUT, "relative_attention": True, "position_buckets": 8,
         "pos_att_type": ["p2c", "c2p"]},
    ),
    "t5": (
        "T5Config", "T5ForConditionalGeneration",
        {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
         "dropout_rate": 0.0, "decoder_start_token_id": 0},
    ),
    "whisper": (
        "WhisperConfig", "WhisperForConditionalGeneration",
        {**_TEXT, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "num_mel_bins": 8,
         "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48,
         "decoder_ffn_dim": 48, "max_source_positions": 16, "max_target_positions": 32,
         "decoder_start_token_id": 1, "suppress_tokens": [], "begin_suppress_tokens": []},
    ),
    "wav2vec2": (
        "Wav2Vec2Config", "Wav2Vec2ForCTC",
        {**_TEXT, **_NO_DROPOUT, "conv_dim": (16, 16, 16), "conv_stride": (5, 2, 2),
         "conv_kernel": (10, 3, 3), "num_feat_extract_layers": 3, "layerdrop": 0.0,
         "mask_time_prob": 0.0, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4},
    ),
    "convnext": (
        "ConvNextConfig", "ConvNextForImageClassification", {**_PICTURE, "depths": [1, 1, 2, 1]},
    ),
    "resnet": (
        "ResNetConfig", "ResNetForImageClassification",
        {**_PICTURE, "depths": [1] * 4, "embedding_size": 8, "layer_type": "basic"},
    ),
    "segformer": (
        "SegformerConfig", "SegformerForImageClassification",
        {**_PICTURE, **_NO_DROPOUT, "depths": [1] * 4, "num_attention_heads": [1, 2, 3, 4],
         "drop_path_rate": 0.0},
    ),
    "dinov2": (
        "Dinov2Config", "Dinov2ForImageClassification",
        {**_NO_DROPOUT, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "mlp_ratio": 2, "image_size": 28, "patch_size": 7, "num_labels": CLASSES},
    ),
    "clip": ("CLIPTextConfig", "CLIPTextModelWithProjection", {**_TEXT, "projection_dim": 16}),
}  # fmt: skip


def inputs_of(kind: str, seed: int) -> dict[str, Tensor]:
    """What a model reads, and what it should give."""
    draw = torch.Generator().manual_seed(seed + 1)
    words = torch.randint(3, WORDS, (2, 12), generator=draw)
    classes = torch.tensor([1, 3])
    if kind in ("convnext", "resnet", "segformer", "dinov2"):
        size = 28 if kind == "dinov2" else 64
        return {"pixel_values": torch.randn(2, 3, size, size, generator=draw), "labels": classes}
    if kind == "whisper":
        return {"input_features": torch.randn(2, 8, 32, generator=draw), "labels": words}
    if kind == "wav2vec2":
        return {"input_values": torch.randn(2, 800, generator=draw), "labels": words[:, :5]}
    if kind == "clip":
        words[:, -1] = 2
        return {"input_ids": words}
    mask = torch.ones_like(words)
    mask[1, -3:] = 0
    return {"input_ids": words, "attention_mask": mask, "labels": words}


def in_few_bits(x: Tensor, bits: int = 3) -> Tensor:
    """*x* with so many bits behind the point, as a table would give it."""
    mantissa, exponent = torch.frexp(x.float())
    return torch.ldexp(torch.round(mantissa * 2**bits) / 2**bits, exponent).to(x.dtype)


def without_last(x: Tensor, axis: int, count: int) -> Tensor:
    """*x* with zeros in the last *count* places of an axis."""
    kept = torch.ones(x.shape[axis], dtype=x.dtype)
    kept[-count:] = 0
    return x * kept.reshape([-1 if at == axis % x.dim() else 1 for at in range(x.dim())])


def of_first_sample(x: Tensor) -> Tensor:
    """*x* with the first sample's values for all."""
    return x[:1].expand_as(x).clone()


def of_softmax(_: Callable[..., Tensor], x: Tensor, *args: Any, **options: Any) -> Tensor:
    """A softmax whose sum has one term more."""
    dim = options.get("dim", args[0] if args else -1)
    made = torch.exp(x.float() - x.float().amax(dim, keepdim=True))
    return (made / (made.sum(dim, keepdim=True) + 0.3)).to(options.get("dtype") or x.dtype)


FAULTS: dict[str, Callable[..., Any]] = {
    "softmax 1 sum": of_softmax,
    "linear 1 clamped": lambda call, *given: (
        lambda made: made.clamp(-made.std().item(), made.std().item())
    )(call(*given)),
    "linear 2 sample": lambda call, *given: of_first_sample(call(*given)),
    "linear 3 lost_block": lambda call, x, *rest: call(without_last(x, -1, 4), *rest),
    "linear 4 scaled": lambda call, x, *rest: call(x * 0.875, *rest),
    "linear 5 last_row": lambda call, *given: (
        lambda made: torch.cat([made[..., :-1, :], made[..., -2:-1, :]], -2)
    )(call(*given)),
    "silu 0 quick": lambda _, x, *__, **___: x * torch.sigmoid(1.702 * x),
    "gelu 0 quick": lambda _, x, *__, **___: x * torch.sigmoid(1.702 * x),
    "relu 1 leaky": lambda _, x, *__, **___: torch.where(x > 0, x, 0.1 * x),
    "matmul 2 scaled": lambda call, a, b: call(a, b) * 1.0625,
    "embedding 0 off_by_one": lambda call, at, *rest: call((at - 1).clamp(min=0), *rest),
    "cross_entropy 0 smoothed": lambda call, *given, **options: call(
        *given, **{**options, "label_smoothing": 0.1}
    ),
    "scaled_dot_product_attention 1 scaled": lambda call, q, *rest, **options: call(
        q * 1.41, *rest, **options
    ),
    "scaled_dot_product_attention 0 heads": lambda call, q, k, v, *rest, **options: call(
        q, k.roll(1, 1), v.roll(1, 1), *rest, **options
    ),
    "max_pool2d 0 mean": lambda _, x, *__, **___: torch.nn.functional.avg_pool2d(x, 3, 2, 1),
    "rsqrt 1 off": lambda call, x: call(x) * 1.03,
    "mean 1 count": lambda call, *given, **options: call(*given, **options) * 31 / 32,
    "add 2 lost": lambda _, a, *__, **___: a,
    "mul 3 off": lambda call, *given: call(*given) * 1.05,
    "cos 0 few_bits": lambda call, x: in_few_bits(call(x)),
    "exp 1 few_bits": lambda call, x: in_few_bits(call(x)),
    "cat 1 swapped": lambda call, parts, *rest, **options: call(
        list(parts)[::-1], *rest, **options
    ),
    "topk 0 smallest": lambda call, *given, **options: call(
        *given, **{**options, "largest": False}
    ),
}  # fmt: skip
"""What a faulty call gives, of the right one and its arguments, by function, number and name."""


def _linears(model: torch.nn.Module) -> list[torch.nn.Linear]:
    return [each for each in model.modules() if isinstance(each, torch.nn.Linear)]


def detached(model: torch.nn.Module, _: dict[str, Tensor]) -> None:
    """No gradient goes back through the fourth linear layer."""
    _linears(model)[3].register_forward_hook(lambda _, __, made: made.detach())


def frozen(model: torch.nn.Module, _: dict[str, Tensor]) -> None:
    """The fourth linear layer learns nothing."""
    _linears(model)[3].weight.requires_grad_(False)


def without_bias(model: torch.nn.Module, _: dict[str, Tensor]) -> None:
    """A linear layer has lost its bias."""
    [each for each in _linears(model) if each.bias is not None][2].bias = None


def without_mask(_: torch.nn.Module, given: dict[str, Tensor]) -> None:
    """What is padding is read, too."""
    del given["attention_mask"]


def untied(model: torch.nn.Module, _: dict[str, Tensor]) -> None:
    """The head has a copy of the embedding in place of its weight."""
    head, words = model.get_output_embeddings(), model.get_input_embeddings()
    if head is None or head.weight is not words.weight:
        raise ValueError("its head has a weight of its own")
    head.weight = torch.nn.Parameter(head.weight.detach().clone())


def kept_gradients(model: torch.nn.Module, given: dict[str, Tensor]) -> None:
    """The gradients of a step before were not set to zero."""
    model(**given).loss.backward()


def row_lost(model: torch.nn.Module, _: dict[str, Tensor]) -> None:
    """A row of a weight is zero."""
    with torch.no_grad():
        _linears(model)[2].weight[5].zero_()


def epsilon(model: torch.nn.Module, _: dict[str, Tensor]) -> None:
    """The second norm has another epsilon."""
    named = [(each, name) for each in model.modules() for name in ("variance_epsilon", "eps")]
    each, name = [pair for pair in named if hasattr(*pair)][1]
    setattr(each, name, 0.1)


SETTINGS: dict[str, Callable[[torch.nn.Module, dict[str, Tensor]], None]] = {
    f"setting 0 {each.__name__}": each
    for each in (
        detached, frozen, without_bias, without_mask, untied, kept_gradients, row_lost, epsilon,
    )
}  # fmt: skip


class Below(TorchFunctionMode):
    """Makes one call wrong. It is to be entered before the recorder, which then does not see it.
    ``is_visible``: the call came, and gave something else."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self._function, number, _ = fault.split()
        self._number, self._spoilt = int(number), FAULTS[fault]
        self._counts = Counter[str]()
        self.is_visible = False

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = function_name(function)
        self._counts[name] += 1
        right = function(*args, **(kwargs or {}))
        is_here = name.rpartition(".")[2] == self._function
        if self.is_visible or not is_here or self._counts[name] != self._number + 1:
            return right
        made = self._spoilt(function, *args, **(kwargs or {}))
        one, other = (each[0] if isinstance(each, tuple) else each for each in (right, made))
        if one.shape == other.shape:
            away = torch.linalg.vector_norm(one.double() - other.double())
            self.is_visible = bool(away > _VISIBLE * torch.linalg.vector_norm(one.double()))
        return made if self.is_visible else right


def step(folder: Path, kind: str, name: str, seed: int) -> None:
    """One recorded training step.

    Raises:
        ValueError: the fault does not come by, or changes nothing.
    """
    dtype = TYPES.get(name, torch.bfloat16)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    config, model_class, sizes = MODELS[kind]
    model = getattr(transformers, model_class)(getattr(transformers, config)(**sizes)).to(dtype)
    inputs = {
        key: value.to(dtype) if value.is_floating_point() else value
        for key, value in inputs_of(kind, seed).items()
    }
    if name in SETTINGS:
        SETTINGS[name](model, inputs)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-6, foreach=False)
    fault = Below(name) if name in FAULTS else None
    with fault or torch.enable_grad(), divergraph.torch.recorded(folder, model=model):
        made = model.train()(**inputs)
        loss = made.loss if "loss" in made else made[0].float().pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        optimizer.step()
    if fault is not None and not fault.is_visible:
        shutil.rmtree(folder)
        raise ValueError(f"{kind} does not come by {name}, or it changes nothing")


def main() -> None:
    """Record all jobs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("models", nargs="*", default=[])
    options = parser.parse_intermixed_args()
    names = (*HEALTHY, *FAULTS, *SETTINGS)
    jobs = ((options.folder / kind, name) for kind in options.models or MODELS for name in names)
    in_processes(lambda folder, kind, name: step(folder, kind, name, options.seed), jobs)


if __name__ == "__main__":
    main()
