"""Long work done in batches: here, in processes beside this one, or on a Dask cluster.

A job is a list of items and a :class:`Work` that turns each into a small result. Results
come back in the order of the items and are the same whatever did the work.
"""

from divergraph.jobs.executors import BatchExecutor, SerialExecutor, chosen_executor
from divergraph.jobs.job import Job, JobCancelledError, JobProgress, JobState
from divergraph.jobs.journal import Journal
from divergraph.jobs.work import Work

__all__ = [
    "BatchExecutor",
    "Job",
    "JobCancelledError",
    "JobProgress",
    "JobState",
    "Journal",
    "SerialExecutor",
    "Work",
    "chosen_executor",
]
