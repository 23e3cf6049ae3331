// Internal: the golden op of each output of a run that has one in the golden graph, in any order.
MATCH (m:Metric {run: $run, io: 'output'})-[:AGAINST]->(o:Op)
RETURN m.seq AS seq, o.name AS op
