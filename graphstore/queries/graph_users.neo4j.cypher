// Internal: the runs, shown or pending, and imports that use a graph.
// Parameter key: text
MATCH (r:Run|PendingRun) WHERE r.golden = $key OR r.device = $key RETURN r.id AS user
UNION
MATCH (i:Import {graph: $key}) RETURN i.id AS user
