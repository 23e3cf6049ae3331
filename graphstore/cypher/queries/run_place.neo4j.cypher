// Internal: the keys under which a run and its graphs are stored, and the stamp it got
// when it was written.
// Parameter name: text
MATCH (r:Run {name: $name}), (g:Graph {id: r.golden}), (d:Graph {id: r.device})
RETURN r.device AS device, d.content AS content, r.id AS run, r.golden AS golden,
       g.content AS golden_content, r.stamp AS stamp
