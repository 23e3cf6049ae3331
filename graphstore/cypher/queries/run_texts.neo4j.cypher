// Internal: the names of all runs, and their records.
MATCH (r:Run) RETURN r.name AS name, r.run_json AS run
