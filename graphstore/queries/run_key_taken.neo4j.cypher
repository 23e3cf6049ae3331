// Internal: whether a run, shown or pending, has a key.
// Parameter key: text
MATCH (r:Run|PendingRun {id: $key}) RETURN r.id AS id
