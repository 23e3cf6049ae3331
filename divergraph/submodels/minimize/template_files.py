"""Programs for ``--oracle command`` to start from, one for each vendor's tools."""

from __future__ import annotations

from importlib.resources import files

_FILES = {"atc": "atc.sh", "tensorrt": "tensorrt.sh", "openvino": "openvino.txt"}
TEMPLATES = tuple(_FILES)


def template_text(name: str) -> str:
    """The program, as text.

    Raises:
        KeyError: there is none of that name.
    """
    place = files("divergraph.submodels.minimize") / "templates" / _FILES[name]
    return place.read_text(encoding="utf-8")
