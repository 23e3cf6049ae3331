"""Files that users send: kept apart, checked, and named as paths of jobs until they expire."""
