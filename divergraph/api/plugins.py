"""The plug-ins: importers, executors and whatever else is found by entry point."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import distributions

from divergraph.api.rows import Rows

_PREFIX = "divergraph."


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point: ``kind`` is its group without ``divergraph.``, ``place`` its object."""

    kind: str
    name: str
    place: str
    package: str
    version: str


def plugins(kind: str | None = None) -> Rows[Plugin]:
    """All plug-ins, or those of one *kind* (``importers``, ``executors``, ...), by name.

    Nothing is loaded to list them.

    >>> import divergraph as dg
    >>> [plugin.name for plugin in dg.plugins("executors")]
    ['caffe', 'onnxruntime', 'pytorch_calls', 'tensorflow', 'tensorflow_as_onnx', 'torch_export']
    """
    plugins_installed = {
        Plugin(
            entry.group.removeprefix(_PREFIX),
            entry.name,
            entry.value,
            package.name,
            package.version,
        )
        for package in distributions()
        for entry in package.entry_points
        if entry.group.startswith(_PREFIX)
    }
    wanted = {plugin for plugin in plugins_installed if kind in (None, plugin.kind)}
    return Rows(Plugin, sorted(wanted, key=lambda plugin: (plugin.kind, plugin.name)))
