"""Programs for ``--oracle command`` to start from, one for each vendor's tools."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal

Template = Literal["atc", "tensorrt", "openvino"]


def template_text(name: str) -> str:
    """The program, as text.

    Raises:
        KeyError: there is none of that name.
    """
    endings = {"atc": "sh", "tensorrt": "sh", "openvino": "py"}
    place = files("divergraph.submodels.minimize") / "templates" / f"{name}.{endings[name]}"
    return place.read_text(encoding="utf-8")
