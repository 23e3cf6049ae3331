"""Configurations that make a device dump, as texts to paste or files to name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from divergraph.job_setup.actions import module_text
from divergraph.job_setup.steps import checked_steps
from graphstore.errors import InputError

MODES = ("all", "input", "output")


@dataclass(frozen=True, slots=True)
class DumpSettings:
    """What is to be dumped, and where to.

    Of offline models ``model`` names one (empty: all) and ``layers`` some of its ops. ``overflow``
    has overflows found instead; ``switch`` is a fusion switch file. msprobe dumps only these
    ``calls`` and ``ranks``, or all where there are none.
    """

    path: str = "precision_data/npu/debug_0/dump"
    mode: str = "all"
    steps: str = "0"
    model: str = ""
    layers: tuple[str, ...] = ()
    overflow: bool = False
    switch: str = ""
    calls: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()


def config_text(form: str, settings: DumpSettings) -> str:
    """A configuration of this *form*, one of :data:`FORMS`.

    Raises:
        InputError: the settings do not go together.
    """
    checked_steps(settings.steps)
    if settings.layers and not settings.model:
        raise InputError("--layer needs --model: the offline model that has these ops")
    return FORMS[form](settings)


def _acl_json(settings: DumpSettings) -> str:
    if settings.overflow:
        dump: dict[str, Any] = {"dump_path": settings.path, "dump_debug": "on"}
        return json.dumps({"dump": dump}, indent=2) + "\n"
    listed: dict[str, Any] = {"model_name": settings.model} if settings.model else {}
    if settings.layers:
        listed["layer"] = list(settings.layers)
    dump = {
        "dump_path": settings.path,
        "dump_mode": settings.mode,
        "dump_op_switch": "off",
        "dump_list": [listed],
    }
    if settings.steps != "0":
        dump["dump_step"] = settings.steps
    return json.dumps({"dump": dump}, indent=2) + "\n"


def _msprobe(settings: DumpSettings) -> str:
    if settings.overflow:
        raise InputError(
            "msprobe finds overflows by a task of its own", hint="leave --overflow out"
        )
    config = {
        "task": "tensor",
        "dump_path": settings.path,
        "rank": list(settings.ranks),
        "step": [int(step) for step in settings.steps.split("|")],
        "level": "mix",
        "tensor": {"scope": [], "list": list(settings.calls), "data_mode": [settings.mode]},
    }
    return json.dumps(config, indent=2) + "\n"


def _options(settings: DumpSettings) -> dict[str, Any]:
    if settings.overflow:
        return {"enable_dump_debug": True, "dump_path": settings.path, "dump_debug_mode": "all"}
    return {
        "enable_dump": True,
        "dump_path": settings.path,
        "dump_step": settings.steps,
        "dump_mode": settings.mode,
    }


def _estimator(settings: DumpSettings) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in _options(settings).items())
    switch = f", fusion_switch_file={settings.switch!r}" if settings.switch else ""
    return (
        "from npu_bridge.npu_init import DumpConfig, NPURunConfig\n\n"
        f"dump_config = DumpConfig({arguments})\n"
        f"config = NPURunConfig(dump_config=dump_config{switch})\n"
    )


def _session(settings: DumpSettings) -> str:
    options = _options(settings) | (
        {"fusion_switch_file": settings.switch} if settings.switch else {}
    )
    lines = [
        "import tensorflow as tf",
        "from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig",
        "",
        "config = tf.compat.v1.ConfigProto()",
        "custom_op = config.graph_options.rewrite_options.custom_optimizers.add()",
        'custom_op.name = "NpuOptimizer"',
        'custom_op.parameter_map["use_off_line"].b = True',
        *(f'custom_op.parameter_map["{name}"]{_value(value)}' for name, value in options.items()),
        "config.graph_options.rewrite_options.remapping = RewriterConfig.OFF",
        "config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF",
    ]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    return f".b = {value}" if isinstance(value, bool) else f".s = tf.compat.as_bytes({value!r})"


FORMS: Mapping[str, Callable[[DumpSettings], str]] = {
    "acl-json": _acl_json,
    "estimator": _estimator,
    "session": _session,
    "msprobe": _msprobe,
    "tf-config": lambda _: module_text(),
}
"""What can be written: a file for AscendCL, Python for Estimators and sessions, msprobe's
``config.json``, the module."""
