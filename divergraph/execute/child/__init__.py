"""Models are run in a process beside this one, with limits, and without what they do not need."""
