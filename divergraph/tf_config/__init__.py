"""What a TensorFlow training script tells an Ascend device so that it dumps: tf_config.

    import divergraph.tf_config as npu_tf_config

    config = NPURunConfig(dump_config=npu_tf_config.estimator_dump_config())      # Estimator
    sess = tf.Session(config=npu_tf_config.session_dump_config(config))           # session
    sess = npu_tf_config.sess_dump(sess)                                          # on the CPU

``divergraph npu-dump``, ``npu-overflow`` and ``tf-dump`` start such a script and say by the
environment what it is to do; started by itself it does nothing of all this. The functions are those
of precision_tool's module of this name, with the same settings.

This file stands alone: ``divergraph dump-config tf-config -o tf_config.py`` writes it for an
environment that has no divergraph (Python 3.7, TensorFlow 1.15).
"""

from __future__ import annotations

import os
import random
import sys
from importlib import import_module
from typing import Any

ACTION = "DIVERGRAPH_ACTION"
DATA = "DIVERGRAPH_DATA"
STEPS = "DIVERGRAPH_DUMP_STEP"
SWITCH_FILE = "DIVERGRAPH_FUSION_SWITCH_FILE"
PRECISION_TOOL_FLAGS = {"dump": "PRECISION_TOOL_DUMP", "overflow": "PRECISION_TOOL_OVERFLOW"}
SEED = 2022
OP_DEBUG_LEVEL = 4
GRAPH_FLAGS = {"DUMP_GE_GRAPH": "2", "DUMP_GRAPH_LEVEL": "3", "NPU_DUMP_GRAPH": "true"}
GRAPH_PATH = "DUMP_GRAPH_PATH"


def data_path(*parts: str) -> str:
    """A place in the data folder."""
    return os.path.join(os.environ.get(DATA) or "precision_data", *parts)  # noqa: PTH118


def set_seeds(seed: int = SEED) -> None:
    """Make random numbers the same in every run: Python's, numpy's and TensorFlow's."""
    os.environ["PYTHONHASHSEED"] = str(seed)
    random.seed(seed)
    for name in ("numpy", "tensorflow"):
        module = sys.modules.get(name) or _module(name)
        if module is not None:
            _seed(module, name, seed)
    patch = _module("tfdeterminism")
    if patch is not None:
        patch.patch()


def _seed(module: Any, name: str, seed: int) -> None:
    if name == "numpy":
        module.random.seed(seed)
    elif hasattr(module, "set_random_seed"):
        module.set_random_seed(seed)
    else:
        module.random.set_seed(seed)


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None  # then it makes no random numbers either


def sess_dump(sess: Any) -> Any:
    """*sess*, with every tensor of each run written down by TensorFlow's debugger.

    Only in a script that ``divergraph tf-dump`` started; else *sess* as it is.
    """
    if not _is("tf_dump", None):
        return sess
    debug = _debugger()
    return debug.DumpingDebugWrapperSession(sess, _new_folder("tf", "tf_debug"))


def estimator_dump(action: str | None = None) -> Any:
    """A hook that does the same for an Estimator: ``training_hooks=[estimator_dump()]``."""
    if not _is("tf_dump", action):
        train: Any = import_module("tensorflow").compat.v1.train
        return train.SessionRunHook()
    return _debugger().DumpingDebugHook(_new_folder("tf", "tf_debug"))


def _debugger() -> Any:
    """TensorFlow's debugger of the first kind, which later releases keep in its parts."""
    debug = import_module("tensorflow.python.debug")
    if hasattr(debug, "DumpingDebugWrapperSession"):
        return debug

    class Parts:
        DumpingDebugWrapperSession = import_module(
            "tensorflow.python.debug.wrappers.dumping_wrapper"
        ).DumpingDebugWrapperSession
        DumpingDebugHook = import_module("tensorflow.python.debug.wrappers.hooks").DumpingDebugHook

    return Parts


def session_dump_config(session_config: Any = None, action: str | None = None) -> Any:
    """*session_config*, or a new one, with what the device is to dump.

    *action* is ``dump``, ``overflow``, ``fusion_off`` or ``fusion_switch``, or several of these
    joined; None: what the environment says.
    """
    config_pb2: Any = import_module("tensorflow.core.protobuf.config_pb2")
    rewriter: Any = import_module("tensorflow.core.protobuf.rewriter_config_pb2").RewriterConfig
    if not isinstance(session_config, config_pb2.ConfigProto):
        session_config = config_pb2.ConfigProto()
    options = session_config.graph_options.rewrite_options
    optimizers = [
        optimizer for optimizer in options.custom_optimizers if optimizer.name == "NpuOptimizer"
    ]
    custom_op = optimizers[0] if optimizers else options.custom_optimizers.add()
    custom_op.name = "NpuOptimizer"
    custom_op.parameter_map["use_off_line"].b = True
    update_custom_op(custom_op, action)
    options.remapping = rewriter.OFF
    return session_config


def update_custom_op(custom_op: Any, action: str | None = None) -> Any:
    """*custom_op*, the ``NpuOptimizer`` of a session's configuration, with the same settings."""
    _begin(action)
    values = custom_op.parameter_map
    values["debug_dir"].s = _new_folder("npu", "debug_0").encode()
    for name, value in session_settings(action).items():
        if isinstance(value, bool):
            values[name].b = value
        elif isinstance(value, int):
            values[name].i = value
        else:
            values[name].s = value.encode()
    return custom_op


def session_settings(action: str | None = None) -> dict[str, Any]:
    """The options of ``NpuOptimizer`` for *action*, by name."""
    settings: dict[str, Any] = {}
    if _is("overflow", action):
        path = data_path("overflow", "dump")
        settings = {"enable_dump_debug": True, "dump_debug_mode": "all", "dump_path": path}
        settings["op_debug_level"] = OP_DEBUG_LEVEL
    elif _is("dump", action):
        path = data_path("npu", "debug_0", "dump")
        settings = {"enable_dump": True, "dump_mode": "all", "dump_path": path}
        settings["op_debug_level"] = OP_DEBUG_LEVEL
        settings["dump_step"] = dump_step()
    if switch := switch_file(action):
        settings["fusion_switch_file"] = switch
    return settings


def estimator_dump_config(action: str | None = None) -> Any:
    """The ``DumpConfig`` for ``NPURunConfig(dump_config=...)``."""
    dump_config: Any = import_module("npu_bridge.npu_init").DumpConfig
    _begin(action)
    return dump_config(**estimator_settings(action))


def estimator_settings(action: str | None = None) -> dict[str, Any]:
    """The arguments of ``DumpConfig`` for *action*, by name."""
    if _is("overflow", action):
        path = data_path("overflow", "dump")
        return {"enable_dump_debug": True, "dump_path": path, "dump_debug_mode": "all"}
    if _is("dump", action):
        path = data_path("npu", "debug_0", "dump")
        step = dump_step()
        return {"enable_dump": True, "dump_path": path, "dump_step": step, "dump_mode": "all"}
    return {}


def npu_device_dump_config(npu_device: Any, action: str | None = None) -> Any:
    """*npu_device* of TensorFlow 2 with the same settings."""
    _begin(action)
    options = npu_device.global_options()
    for name, value in session_settings(action).items():
        if name in ("op_debug_level", "fusion_switch_file"):
            setattr(options, name, value)
        else:
            setattr(options.dump_config, name, value)
    return npu_device


def dump_step() -> str:
    """The steps to dump: ``0|5|10``."""
    return os.environ.get(STEPS) or "0"


def switch_file(action: str | None = None) -> str:
    """The fusion switch file for *action*; empty if fusion stays as it is."""
    switch_path = os.environ.get(SWITCH_FILE, "")
    if _is("fusion_off", action):
        path = os.path.join(_new_folder("fusion"), "fusion_off.cfg")  # noqa: PTH118
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write('{"Switch":{"GraphFusion":{"ALL":"off"},"UBFusion":{"ALL":"off"}}}\n')
        return path
    if _is("fusion_switch", action) and not switch_path:
        return data_path("fusion", "fusion_switch.cfg")
    return switch_path


def _is(wanted: str, action: str | None) -> bool:
    """Whether *action*, or else the environment, asks for *wanted*."""
    actions = action if action is not None else os.environ.get(ACTION, "")
    if wanted == "dump":
        actions = actions.replace("tf_dump", "")
    return wanted in actions


def _begin(action: str | None) -> None:
    """Make the folders, and have the compiler write its graphs."""
    if not (_is("dump", action) or _is("overflow", action)):
        return
    set_seeds()
    for parts in (("npu", "debug_0", "dump"), ("overflow", "dump")):
        _new_folder(*parts)
    os.environ.update(GRAPH_FLAGS)
    os.environ[GRAPH_PATH] = os.path.abspath(_new_folder("npu", "debug_0", "graph"))  # noqa: PTH100


def _new_folder(*parts: str) -> str:
    path = data_path(*parts)
    os.makedirs(path, mode=0o700, exist_ok=True)  # noqa: PTH103
    return path


if os.environ.get(ACTION):
    set_seeds()
