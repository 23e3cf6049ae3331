// Internal: whether a run, or where there is none a graph, is shown.
// Parameter run: text
// Parameter graph: text
OPTIONAL MATCH (r:Run {id: $run})
OPTIONAL MATCH (g:Graph {id: $graph})
WITH r, g WHERE g IS NOT NULL AND (r IS NOT NULL OR $run IS NULL)
RETURN g.id AS id
