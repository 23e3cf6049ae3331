"""Parts of a model: chosen by their ends, exported with their data, shrunk while they fail."""
