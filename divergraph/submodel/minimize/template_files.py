"""Programs for ``--oracle command`` to start from, one for each vendor's tools."""

from __future__ import annotations

from importlib.resources import files

TEMPLATES = ("atc", "tensorrt", "openvino")


def template_text(name: str) -> str:
    """The program, as text.

    Raises:
        FileNotFoundError: there is none of that name.
    """
    place = files("divergraph.submodel.minimize") / "templates" / f"{name}.txt"
    return place.read_text(encoding="utf-8")
