// Internal: the origins of each run of a database that runs share.
MATCH (r:Run)
RETURN r.id AS run, r.origins_json AS origins
