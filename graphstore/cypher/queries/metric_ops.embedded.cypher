// Internal: the device op of each tensor of a run, a slice of them, in any order.
// Parameter first: number
// Parameter until: number
MATCH (m:Metric {run: $run})-[:OF]->(o:Op) WHERE m.seq >= $first AND m.seq < $until
RETURN m.seq AS seq, o.name AS op
