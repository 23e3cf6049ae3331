"""Training jobs that dump: started here, or configured by texts to paste."""

from __future__ import annotations

from divergraph.job_setup.actions import JobAction, ScriptJob, end_text, start
from divergraph.job_setup.dump_configs import FORMS, MODES, DumpSettings, config_text

__all__ = [
    "FORMS",
    "MODES",
    "DumpSettings",
    "JobAction",
    "ScriptJob",
    "config_text",
    "end_text",
    "start",
]
