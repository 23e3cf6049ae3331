"""What the analysis finds instead of listing: built-in modules of a folder, and plug-ins.

A device precision, a tolerance or a cause is one file: a module of its folder that gives itself
under an agreed name, or whatever an installed package names as an entry point of that group.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import walk_packages

_LOG = logging.getLogger(__name__)


def discovered(package: str, attribute: str, group: str) -> Iterator[object]:
    """The value of *attribute* in each module of *package*, and of the packages in it, that has it,
    in the order of the module names, then what the entry points of *group* load. A plug-in that
    cannot be loaded is logged and left out; a built-in module that cannot be imported raises."""
    folder = import_module(package)
    modules = walk_packages(folder.__path__, f"{package}.")
    for module_info in sorted(modules, key=lambda module_info: module_info.name):
        module = import_module(module_info.name)
        if hasattr(module, attribute):
            yield getattr(module, attribute)
    for entry in sorted(entry_points(group=group), key=lambda entry_point: entry_point.name):
        try:
            yield entry.load()
        except Exception as error:  # noqa: BLE001 - someone else's code: whatever it raises
            _LOG.warning("%s %s (%s) cannot be loaded: %s", group, entry.name, entry.value, error)
