// Internal: origins and suspects of a run, and its links to ops no graph has.
MATCH (r:Run {id: $run})
RETURN r.origins_json AS origins, r.loose_links_json AS loose_links, r.suspects_json AS suspects
