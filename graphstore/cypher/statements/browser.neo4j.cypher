// What Neo4j Browser is shown of a run: labels for bands of cosines.

// last_result: the number of the last result of a run.
MATCH (m:Metric {run: $run}) RETURN max(m.seq) AS last

// paint_ops: an op of some results gets the label of its worst cosine.
MATCH (m:Metric {run: $run}) WHERE m.seq >= $from AND m.seq < $until AND m.io = 'output'
MATCH (m)-[:OF]->(o:Op) WITH DISTINCT o
MATCH (o)<-[:OF]-(x:Metric) WHERE x.run = $run AND x.io = 'output'
WITH o, min(x.cosine_similarity) AS cos,
     sum(CASE WHEN x.device_nonfinite > x.golden_nonfinite THEN 1 ELSE 0 END) AS broken
FOREACH (_ IN CASE WHEN broken > 0 THEN [1] ELSE [] END | SET o:Cos_NaN)
FOREACH (_ IN CASE WHEN broken = 0 AND cos < 0.9 THEN [1] ELSE [] END | SET o:Cos_Bad)
FOREACH (_ IN CASE WHEN broken = 0 AND cos >= 0.9 AND cos < 0.99 THEN [1] ELSE [] END | SET o:Cos_Poor)
FOREACH (_ IN CASE WHEN broken = 0 AND cos >= 0.99 AND cos < 0.9999 THEN [1] ELSE [] END | SET o:Cos_Fair)
FOREACH (_ IN CASE WHEN broken = 0 AND cos >= 0.9999 THEN [1] ELSE [] END | SET o:Cos_Good)
RETURN count(*) AS n

// mark_internal: nodes that only the program reads, some thousand in each transaction.
MATCH (n:<label>) WHERE NOT n:_Internal WITH n LIMIT $rows SET n:_Internal RETURN count(*) AS n

// count_nodes: how many nodes have a label.
MATCH (n:<label>) RETURN count(n) AS n

// wash_nodes: nodes lose a label that was painted, some thousand in each transaction.
MATCH (n:<label>) WITH n LIMIT $rows REMOVE n:<label> RETURN count(*) AS n
