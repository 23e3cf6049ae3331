// Internal: states of the device ops of a run by topo, and the figures that its graph shows, for a
// slice of the ops.
MATCH (o:Op) WHERE o.id >= $first_node AND o.id < $end_node
MATCH (m:Metric {run: $run})-[:OF]->(o)
RETURN o.topo AS topo, m.io AS io, m.state AS state,
       m.relative_euclidean_distance AS relative_euclidean_distance,
       m.cosine_similarity AS cosine_similarity, m.max_absolute_error AS max_absolute_error,
       m.introduced AS introduced, m.suspicion AS suspicion
