// Internal: the stored form of all runs.
MATCH (r:Run) RETURN r.run_json AS run
