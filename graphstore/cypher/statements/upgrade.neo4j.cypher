// A store of schema version 2 becomes one of version 3; each part can be done again.

// graphs: the graphs of the store, and how far their ops go.
MATCH (g:Graph) OPTIONAL MATCH (o:Op {graph: g.id})
RETURN g.id AS id, g.kind AS kind, g.header_json AS header, coalesce(max(o.topo), -1) AS last

// runs: the runs of the store, and how far their results go.
MATCH (r:Run) OPTIONAL MATCH (m:Metric {run: r.id})
RETURN r.id AS id, coalesce(max(m.seq), -1) AS last

// imports: the names of graphs.
MATCH (i:Import) RETURN i.id AS id

// old_ops: ops that say their attributes as one text.
MATCH (o:Op {graph: $graph})
WHERE o.topo >= $from AND o.topo < $until AND o.attrs_json IS NOT NULL
RETURN o.id AS id, o.attrs_json AS attributes

// ops: what ops of a graph say now.
MATCH (g:Graph {id: $graph}) UNWIND $rows AS row MATCH (o:Op {id: row[0]})
MERGE (g)-[:HAS_OP]->(o)
SET o.kind = $kind, o.attributes = row[1], o.rank = row[2], o.ranks = row[3] REMOVE o.attrs_json

// tensors: the outputs of ops.
MATCH (o:Op {graph: $graph}) WHERE o.topo >= $from AND o.topo < $until
MATCH (t:Tensor {op: o.id}) MERGE (o)-[:PRODUCES]->(t)
SET t.dims = [size IN split(substring(t.shape, 1, size(t.shape) - 2), ',') WHERE size <> '' |
              coalesce(toInteger(size), -1)]

// inputs: the tensors that ops read.
MATCH (o:Op {graph: $graph}) WHERE o.topo >= $from AND o.topo < $until
MATCH (a:Op)-[r:FEEDS]->(o) MATCH (t:Tensor {op: a.id}) WHERE t.port = r.out
MERGE (t)-[:INPUT_OF {port: r.in, kind: r.kind}]->(o)

// results: the tensors that were compared.
MATCH (m:Metric {run: $run}) WHERE m.seq >= $from AND m.seq < $until
MATCH (t:Tensor {id: m.tensor}) MERGE (m)-[:OF_TENSOR]->(t)
