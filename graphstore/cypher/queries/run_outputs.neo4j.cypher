// Internal: the compared outputs of a run, what queries on arrays need of them; the rows
// of a slice in one list, a tenth of the time of single rows.
// Parameter first: number
// Parameter until: number
MATCH (m:Metric {run: $run}) WHERE m.seq >= $first AND m.seq < $until
OPTIONAL MATCH (m)-[:OF]->(o:Op) WHERE m.io = 'output' AND m.compared
RETURN count(m) AS found,
       collect(CASE WHEN o IS NOT NULL THEN
         [o.topo, m.port, m.level, m.cosine_similarity, m.relative_euclidean_distance, m.nan,
          m.device_nonfinite, m.golden_nonfinite, m.elements, m.different, m.seq] END) AS rows
