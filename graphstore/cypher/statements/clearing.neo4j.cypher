// Deleting the rows of what is not shown any more, some thousand in each transaction.

// run_metrics: metrics of a run.
MATCH (x:Metric {run: $key}) WITH x LIMIT $rows DETACH DELETE x RETURN count(*) AS n

// run_findings: findings of a run.
MATCH (x:Finding {run: $key}) WITH x LIMIT $rows DETACH DELETE x RETURN count(*) AS n

// run_links: lineage of a run.
MATCH ()-[x:FUSES {run: $key}]->() WITH x LIMIT $rows DELETE x RETURN count(*) AS n

// run_order: which measured op follows which in a run.
MATCH ()-[x:NEXT_MEASURED {run: $key}]->() WITH x LIMIT $rows DELETE x RETURN count(*) AS n

// graph_blocks: the lossless blocks of a graph.
MATCH (x:OpBlock {graph: $key}) WITH x LIMIT $rows DETACH DELETE x RETURN count(*) AS n

// graph_ops: ops with their tensors, which are written after their ops and so never without them.
MATCH (o:Op {graph: $key}) WITH o LIMIT $rows OPTIONAL MATCH (t:Tensor {op: o.id})
WITH o AS x, collect(t) AS tensors FOREACH (t IN tensors | DETACH DELETE t) DETACH DELETE x
RETURN count(*) AS n

// hubs: ops with so many relationships that they lose them first.
MATCH (o:Op {graph: $key}) WHERE COUNT { (o)--() } > $hub RETURN o.id AS id

// hub_edges: relationships of hubs.
UNWIND $ids AS id MATCH (:Op {id: id})-[x]-() WITH DISTINCT x LIMIT $rows DELETE x
RETURN count(*) AS n

// hub_inputs: what hubs feed by their tensors.
UNWIND $ids AS id MATCH (:Tensor {op: id})-[x:INPUT_OF]->() WITH x LIMIT $rows DELETE x
RETURN count(*) AS n

// model_of: the model a pending node of the writer belongs to.
MATCH (n:<label> {id: $id, writer: $token}) RETURN n.model AS model

// node: a pending node of the writer goes.
MATCH (n:<label> {id: $id, writer: $token}) DETACH DELETE n

// ask_model: who writes a graph of a model waits until this transaction ends.
MATCH (m:Model {id: $model}) SET m.asked = true

// unused_model: a model no graph is of goes.
MATCH (m:Model {id: $model})
WHERE NOT EXISTS { MATCH (g:Graph|PendingGraph) WHERE g.model = m.id } DETACH DELETE m

// free_model: a model that stays.
MATCH (m:Model {id: $model}) REMOVE m.asked
