"""Two recorded runs of a job: which call an error starts at, by the errors before and behind it."""
