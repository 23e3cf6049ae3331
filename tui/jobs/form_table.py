"""Which commands can be started as jobs, and in what order their options stand in the form.

What an option is, means and takes is said by the command itself. Options that are not named here
stand last, so that none is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from divergraph.api.keep_forms import KEEP_FORMS

REST = "Further"
"""The heading of options that are not named."""


@dataclass(frozen=True, slots=True)
class FormPlan:
    """The options of a command by heading, under the names its function has for them.

    ``hidden`` ones ask something and start no work; ``needed`` ones the command can do without
    only when it is asked so.
    """

    groups: Mapping[str, tuple[str, ...]]
    hidden: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()


_FILES = ("csv", "html", "junit", "markdown", "parquet", "sarif")
_REPORTS = (*(f"{kind}_path" for kind in _FILES), "excel")
_RUN_HERE = ("device", "device_dump", "golden_dump", "inputs", "seed")
_JUDGED = ("precision", "suspect", "guilty")

FORMS: Mapping[str, FormPlan] = {
    "compare": FormPlan(
        {
            "What is compared": ("golden", "golden_dump", "device", "device_dump"),
            "The run": ("name", "replace_it"),
            "How": ("method", *_JUDGED, "thresholds", "match", "weights"),
            "Which of several": (
                *("device_graph", "rank", "step", "ranks", "steps", "model_id", "time"),
            ),
            "The device without dumping": ("undumped_outputs", "undumped_graph"),
            "Reports": _REPORTS,
            "Who works": ("jobs", "memory", "cluster", "resume"),
        }
    ),
    "import": FormPlan({"The graph": ("path", "name", "replace_it")}),
    "capture": FormPlan(
        {
            "The model": (
                "model",
                "output",
                "inputs",
                "from_device",
                "seed",
                "shapes",
                "ranges",
                "replace_it",
            ),
            "How it runs": ("device", "precision", "memory"),
            "Its weights": ("weights", "checkpoint", "variables", "train_op"),
        },
        hidden=("only_coverage", "write_tfdbg_driver"),
        needed=("output",),
    ),
    "analyse": FormPlan({"The run": ("run",), "How": (*_JUDGED, "thresholds", "memory")}),
    "minimize": FormPlan(
        {
            "Where": ("run", "starts", "ends", "output"),
            "What fails": ("oracle", "variant", "factor", "flaky"),
            "How long": ("budget", "seconds", "timeout", "jobs", "fresh"),
            "The model": ("model", "weights"),
            "A model without a run": _RUN_HERE,
        },
        hidden=("template",),
        needed=("run",),
    ),
    "blame": FormPlan(
        {
            "The run": ("run", "others", "outputs", "top"),
            "What if": ("exact",),
            "Lists for converters": tuple(KEEP_FORMS),
        }
    ),
    "report": FormPlan({"The run": ("run",), "Reports": _REPORTS}),
    "submodel": FormPlan(
        {
            "The part": ("run", "starts", "ends", "output"),
            "How": ("form", "check", "whole", "all_outputs", "smallest"),
            "The model": ("model", "weights"),
            "A model without a run": _RUN_HERE,
        },
        hidden=("yes",),  # there is nobody to be asked
        needed=("output",),
    ),
    "export": FormPlan({"The run": ("run", "output", "side")}),
}
UNSHOWN = ("store", "as_json", "is_quiet", "is_verbose")
"""The store is the one on screen, and nobody reads what a job prints."""
