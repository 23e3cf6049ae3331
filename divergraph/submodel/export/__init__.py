"""Writers of parts of models, one a framework."""
