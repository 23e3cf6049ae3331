// Internal: the stored form of a run, its origins and suspects, and links to ops no graph has.
MATCH (r:Run {id: $run})
RETURN r.run_json AS run, r.origins_json AS origins, r.loose_links_json AS loose_links,
       r.suspects_json AS suspects
