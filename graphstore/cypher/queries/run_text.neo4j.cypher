// Internal: the name of a run, and its record.
MATCH (r:Run {id: $run}) RETURN r.name AS name, r.run_json AS run
